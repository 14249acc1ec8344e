-- name: bad_seqs
-- The events that did not come to good, calls and others.
SELECT seq FROM events WHERE call IS NOT NULL AND status NOT IN ('received', 'handled')
 UNION
SELECT seq FROM outcomes WHERE status <> 'handled';

-- name: bad_attempts
-- Calls that went wrong, of the events at {seqs}; the reader adds which, and the order.
SELECT e.seq, e.id, e.name, e.ts,
       CASE WHEN a.corrected > 0
              OR f.kind <> 'dismissed' AND coalesce(fo.status, fe.status, 'lost')
                 IN ('received', 'handled')
            THEN 'resolved'
            WHEN f.kind = 'dismissed' THEN 'dismissed'
            ELSE 'open' END                                                     AS state,
       CASE WHEN a.verdict IN ('rejected', 'held') THEN a.verdict
            WHEN coalesce(o.status, e.status) = 'rejected' THEN 'invalid'
            WHEN coalesce(o.status, e.status) IN ('unknown', 'denied')
            THEN coalesce(o.status, e.status)
            ELSE 'failed' END                                                   AS kind,
       coalesce(a.code, json_extract(coalesce(o.error, e.error), '$.code'),
                coalesce(o.status, e.status))                                   AS code,
       coalesce(o.error, e.error),
       a.agent_id, a.provider, a.model, a.dialect, a.tool, a.repairs,
       a.completion_id, a.ordinal, a.span_start, a.span_end, a.corrected, c.text
  FROM ({seqs}) bad
  JOIN events e ON e.seq = bad.seq AND e.call IS NOT NULL
  JOIN attempts a ON a.completion_id = e.completion_id AND a.event_id = e.id
  LEFT JOIN outcomes o ON o.seq = e.seq
  LEFT JOIN corrections c ON c.completion_id = a.completion_id AND c.ordinal = a.ordinal
  LEFT JOIN fixes f
    ON f.completion_id = a.completion_id AND f.ordinal = a.ordinal
   AND f.number = (SELECT max(number) FROM fixes l
                    WHERE l.completion_id = a.completion_id AND l.ordinal = a.ordinal)
  LEFT JOIN events fe ON fe.id = f.event_id
  LEFT JOIN outcomes fo ON fo.seq = fe.seq
 WHERE coalesce(o.status, e.status) NOT IN ('received', 'handled');

-- name: fixes
-- What was done about an attempt, in order, and how the events ended that were submitted.
SELECT f.number, f.kind, f.source, f.ts, f.reason, f.event_id, e.seq,
       coalesce(o.status, e.status), coalesce(o.error, e.error)
  FROM fixes f
  LEFT JOIN events e ON e.id = f.event_id
  LEFT JOIN outcomes o ON o.seq = e.seq
 WHERE f.completion_id = ? AND f.ordinal = ?
 ORDER BY f.number;

-- name: fixed_by
-- The attempt that an event was submitted to fix.
SELECT b.seq
  FROM fixes f
  JOIN attempts a ON a.completion_id = f.completion_id AND a.ordinal = f.ordinal
  JOIN events b ON b.id = a.event_id
 WHERE f.event_id = ?;

-- name: fix_outcomes
-- What came of the events that were submitted as fixes.
SELECT coalesce(o.status, e.status, 'pruned'), count(*)
  FROM fixes f
  LEFT JOIN events e ON e.id = f.event_id
  LEFT JOIN outcomes o ON o.seq = e.seq
 WHERE f.kind <> 'dismissed'
 GROUP BY 1;
