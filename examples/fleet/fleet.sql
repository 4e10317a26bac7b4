-- SPDX-License-Identifier: GPL-2.0-or-later
-- Questions to the call sites of a thousand hosts: `sites` is all_sites in ClickHouse, all files in DuckDB.
-- Instances of kmem on one host may have recorded the same events: no sum here is of two of them.

-- Which call site grows, on how many hosts, and how fast? What grows on many is no accident.
SELECT instance, symbol, cache, count(DISTINCT host) AS hosts, sum(growth_bytes_per_s) AS bytes_per_s,
       sum(live_bytes) AS bytes
FROM sites
WHERE role = 'plain' AND verdict IN ('leak', 'only grows')
GROUP BY instance, symbol, cache
ORDER BY hosts DESC, bytes_per_s DESC, symbol, cache, instance
LIMIT 20;

-- Which hosts hold most, and how far can that be wrong? With bounded = 0, nobody knows.
SELECT host, instance, sum(live_bytes) AS bytes, sum(live_objects) AS objects, max(events_lost) AS lost,
       min(bounded) AS bounded
FROM sites
WHERE role = 'plain'
GROUP BY host, instance
ORDER BY bytes DESC, host, instance
LIMIT 20;

-- Which cache has the most bytes that were allocated and not requested, over all hosts?
SELECT instance, cache, sum(bytes_alloc - bytes_req) AS wasted, count(DISTINCT host) AS hosts
FROM sites
WHERE cache <> '' AND bytes_alloc >= bytes_req
GROUP BY instance, cache
ORDER BY wasted DESC, cache, instance
LIMIT 20;
