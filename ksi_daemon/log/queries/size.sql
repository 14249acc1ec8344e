-- name: size_by_name
-- How many events there are of each name and the bytes of their texts, the largest first.
SELECT e.name, count(*),
       sum(length(CAST(e.data AS BLOB)) + coalesce(length(CAST(e.result AS BLOB)), 0)
           + coalesce(length(CAST(o.result AS BLOB)), 0)) AS bytes
  FROM events e LEFT JOIN outcomes o ON o.seq = e.seq
 GROUP BY 1 ORDER BY bytes DESC, 1;

-- name: size_by_agent
-- The same for each agent; '' are the events of none.
SELECT coalesce(e.agent_id, ''), count(*),
       sum(length(CAST(e.data AS BLOB)) + coalesce(length(CAST(e.result AS BLOB)), 0)
           + coalesce(length(CAST(o.result AS BLOB)), 0)) AS bytes
  FROM events e LEFT JOIN outcomes o ON o.seq = e.seq
 GROUP BY 1 ORDER BY bytes DESC, 1;

-- name: size_by_day
-- The same for each day, in UTC, since a time.
SELECT strftime('%Y-%m-%d', e.ts / 1000000, 'unixepoch') AS day, count(*),
       sum(length(CAST(e.data AS BLOB)) + coalesce(length(CAST(e.result AS BLOB)), 0)
           + coalesce(length(CAST(o.result AS BLOB)), 0))
  FROM events e LEFT JOIN outcomes o ON o.seq = e.seq
 WHERE e.ts >= ?
 GROUP BY 1 ORDER BY 1;

-- name: size_due
-- How many events are older than a time.
SELECT count(*) FROM events WHERE ts < ?;
