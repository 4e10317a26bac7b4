-- SPDX-License-Identifier: GPL-2.0-or-later
-- On each server of the cluster `fleet` (remote_servers in ClickHouse's configuration), behind tables.sql: tables over
-- all of them. Rows may be inserted into these, or into the tables of any server.
CREATE TABLE all_events AS events ENGINE = Distributed(fleet, default, events, cityHash64(host));
CREATE TABLE all_sites AS sites ENGINE = Distributed(fleet, default, sites, cityHash64(host));
