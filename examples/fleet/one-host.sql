-- SPDX-License-Identifier: GPL-2.0-or-later
-- Questions to the tables of one host, for ClickHouse and DuckDB alike.
-- Instances of kmem may have recorded the same events: each row is of one of them.

-- Who holds memory at the end of the trace, each byte of objects counted once in an instance?
SELECT instance, symbol, cache, live_objects, live_bytes, peak_bytes
FROM sites
WHERE role = 'plain' AND live_bytes > 0
ORDER BY live_bytes DESC, symbol, cache, type, instance
LIMIT 20;

-- Who allocates most often, and how much of it is not used?
SELECT instance, symbol, cache, allocs, bytes_alloc - bytes_req AS wasted
FROM sites
WHERE role = 'plain' AND bytes_alloc >= bytes_req
ORDER BY allocs DESC, symbol, cache, type, instance
LIMIT 20;

-- What looks like a leak, and how fast does it grow?
SELECT instance, symbol, cache, verdict, growth_bytes_per_s, live_bytes
FROM sites
WHERE verdict IN ('leak', 'only grows')
ORDER BY growth_bytes_per_s DESC, symbol, cache, type, instance
LIMIT 20;

-- Which calls freed nothing of what they allocated, though there were many of them?
SELECT instance, symbol, cache, allocs, live_bytes
FROM sites
WHERE role = 'plain' AND frees = 0 AND allocs >= 100
ORDER BY live_bytes DESC, symbol, cache, type, instance
LIMIT 20;

-- What happened on each vCPU, by kind?
SELECT instance, vcpu, event, count(*) AS times
FROM events
GROUP BY instance, vcpu, event
ORDER BY instance, vcpu, event;
