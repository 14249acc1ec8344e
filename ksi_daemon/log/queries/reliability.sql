-- name: scan_blocks
-- Blocks of completions in a time, counted by the keys at {keys} and by all that is counted of one.
SELECT {keys}, verdict, code, repairs, tries, suspect, stop_reason, status, error, corrected, missed,
       count(*)
  FROM (SELECT {facts},
               a.verdict, a.code, a.repairs, min(a.tries, 4) AS tries, a.suspect, c.stop_reason,
               min(a.corrected, 4) AS corrected,
               CASE WHEN a.verdict IN ('strict', 'repaired')
                    THEN coalesce(o.status, e.status) END AS status,
               json_extract(coalesce(o.error, e.error), '$.code') AS error,
               a.verdict IN ('strict', 'repaired') AND c.state = 'done' AND e.id IS NULL AS missed
          FROM completions c
          JOIN attempts a ON a.completion_id = c.id
          LEFT JOIN events e ON e.id = a.event_id
          LEFT JOIN outcomes o ON o.seq = e.seq
         WHERE c.ts >= ? AND c.ts < ?)
 GROUP BY {keys}, verdict, code, repairs, tries, suspect, stop_reason, status, error, corrected,
          missed;

-- name: scan_replies
-- Completions in a time, each once for each group of the keys at {keys} that it belongs to.
SELECT {keys}, bin, stop_reason, priced, count(*), sum(input_tokens), sum(output_tokens), sum(cost)
  FROM (SELECT DISTINCT {facts}, c.id, latency_bin(c.latency_us) AS bin, c.stop_reason,
               c.cost_nusd IS NOT NULL AS priced, c.input_tokens, c.output_tokens,
               coalesce(c.cost_nusd, 0) AS cost
          FROM completions c INDEXED BY completions_ts
          LEFT JOIN attempts a ON a.completion_id = c.id
         WHERE c.ts >= ? AND c.ts < ?)
 GROUP BY {keys}, bin, stop_reason, priced;

-- name: scan_failures
-- Completions of a time that never came, counted by the keys at {keys} and by the error's code.
SELECT {keys}, code, count(*)
  FROM (SELECT {facts}, c.code
          FROM failures c, (SELECT NULL AS dialect, NULL AS tool, NULL AS size) a
         WHERE c.ts >= ? AND c.ts < ?)
 GROUP BY {keys}, code;

-- name: closed
-- The first day that is not summed up yet, in seconds.
SELECT before FROM rollup_days;

-- name: rolled
-- The counts of a cube by the keys at {keys}: days from :day to :last_day, the hours from :first
-- to :day and those from :last_day to :last.
SELECT {keys}, counts FROM rollup
 WHERE cube = :cube AND span = 86400 AND start >= :day AND start < :last_day
 UNION ALL
SELECT {keys}, counts FROM rollup
 WHERE cube = :cube AND span = 3600 AND start >= :first AND start < :day
 UNION ALL
SELECT {keys}, counts FROM rollup
 WHERE cube = :cube AND span = 3600 AND start >= :last_day AND start < :last;

-- name: forms
-- What each agent wrote in a time in the forms of events: blocks, those of them that could be read
-- and fitted, the time of the last.
SELECT c.agent_id, c.model, a.dialect, a.complex, count(*),
       count(*) FILTER (WHERE a.verdict IN ('strict', 'repaired')
                          AND coalesce(json_extract(coalesce(o.error, e.error), '$.code'), '')
                              <> 'args_schema'),
       max(c.ts)
  FROM completions c
  JOIN attempts a ON a.completion_id = c.id
  LEFT JOIN events e ON e.id = a.event_id
  LEFT JOIN outcomes o ON o.seq = e.seq
 WHERE c.ts >= ? AND c.ts < ?
   AND a.dialect IN ('event', 'ksi_tool_use', 'ksi_body') AND a.verdict <> 'held'
 GROUP BY c.agent_id, c.model, a.dialect, a.complex;
