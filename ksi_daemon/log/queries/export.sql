-- name: records
-- Events as they stand now, each with its result, when it ended, and the reply it tells of.
SELECT e.seq, e.id, e.ts, e.name, e.data, e.source, e.correlation_id, e.cause_id, e.hop,
       e.agent_id, e.completion_id, e.call, coalesce(o.status, e.status),
       coalesce(o.result, e.result), coalesce(o.error, e.error),
       coalesce(o.duration_us, e.duration_us), o.ts,
       c.provider, c.model, c.preset, c.request_id, c.turn, c.stop_reason, c.latency_us,
       c.input_tokens, c.output_tokens
  FROM events e
  LEFT JOIN outcomes o ON o.seq = e.seq
  LEFT JOIN completions c ON c.id = e.id;

-- name: last_seq
-- The highest seq that was ever given out; no row if there was none.
SELECT seq FROM sqlite_sequence WHERE name = 'events';
