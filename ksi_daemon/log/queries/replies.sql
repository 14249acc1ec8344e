-- name: replies
-- Replies to agents that came to their end, with what they were read by; the reader adds which.
SELECT c.id, e.seq, c.ts, c.agent_id, c.model, c.preset, c.stop_reason, c.extractor, r.manner,
       e.data
  FROM completions c
  JOIN events e ON e.id = c.id
  LEFT JOIN readings r ON r.completion_id = c.id
 WHERE c.agent_id IS NOT NULL AND c.stop_reason IS NOT NULL;

-- name: blocks_of_replies
-- The blocks of these replies, each with the data of the event that it became.
SELECT a.completion_id, a.dialect, a.tool, a.verdict, a.code, a.repairs, a.span_start, a.span_end,
       CASE WHEN a.verdict IN ('strict', 'repaired') THEN b.data END
  FROM completions c
  JOIN attempts a ON a.completion_id = c.id
  LEFT JOIN events b ON b.id = a.event_id
 WHERE c.agent_id IS NOT NULL AND c.stop_reason IS NOT NULL;

-- name: manners
-- The manners by which replies were read.
SELECT id, protocol, tools, native FROM manners;
