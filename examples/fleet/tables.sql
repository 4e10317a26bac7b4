-- SPDX-License-Identifier: GPL-2.0-or-later
-- Version 4 of sonde-schema(5) for ClickHouse: where `sonde convert --to rowbinary` and `--to rowbinary-sites` fit.
CREATE TABLE events (
    host String,
    ns Int64,
    vcpu UInt32,
    instance String,
    event String,
    call_site UInt64,
    symbol String,
    ptr UInt64,
    bytes_req UInt64,
    bytes_alloc UInt64,
    cache String,
    gfp_flags String,
    node Int32,
    fields String
) ENGINE = MergeTree ORDER BY (host, ns);

CREATE TABLE sites (
    host String,
    instance String,
    call_site UInt64,
    symbol String,
    type String,
    cache String,
    role String,
    allocs UInt64,
    frees UInt64,
    bytes_req UInt64,
    bytes_alloc UInt64,
    live_objects UInt64,
    live_bytes UInt64,
    peak_bytes UInt64,
    growth_bytes_per_s Int64,
    verdict String,
    begin_ns Int64,
    end_ns Int64,
    events_lost UInt64,
    bounded UInt32
) ENGINE = MergeTree ORDER BY (host, symbol);
