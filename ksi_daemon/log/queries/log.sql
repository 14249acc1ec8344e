-- name: events
-- Events as they stand now; the reader adds which and in what order.
SELECT e.seq, e.id, e.ts, e.name, e.data, e.source, e.correlation_id, e.cause_id, e.hop,
       e.agent_id, e.completion_id, e.call, coalesce(o.status, e.status),
       coalesce(o.error, e.error), coalesce(o.duration_us, e.duration_us)
  FROM events e LEFT JOIN outcomes o ON o.seq = e.seq;

-- name: bounds
-- The oldest and the newest seq; 1 and 0 in an empty log.
SELECT coalesce((SELECT min(seq) FROM events), 1), coalesce((SELECT max(seq) FROM events), 0);

-- name: causes
-- The ids of an event, of what caused it, and so on up to the first event of its story.
WITH RECURSIVE up (id) AS (
    SELECT ?
    UNION
    SELECT e.cause_id FROM up JOIN events e ON e.id = up.id WHERE e.cause_id IS NOT NULL)
SELECT id FROM up;

-- name: effects
-- The ids of an event, of what it caused, and so on down to where nothing followed.
WITH RECURSIVE down (id) AS (
    SELECT ?
    UNION
    SELECT e.id FROM down JOIN events e ON e.cause_id = down.id)
SELECT id FROM down;

-- name: outcome
-- How one event ended.
SELECT coalesce(o.status, e.status), coalesce(o.result, e.result),
       coalesce(o.error, e.error), coalesce(o.duration_us, e.duration_us)
  FROM events e LEFT JOIN outcomes o ON o.seq = e.seq
 WHERE e.seq = ?;

-- name: unfinished
-- Events that were logged and have no outcome.
SELECT e.seq
  FROM events e LEFT JOIN outcomes o ON o.seq = e.seq
 WHERE e.status = 'received' AND o.seq IS NULL
 ORDER BY e.seq;

-- name: counts
-- How many events there are of each name and status.
SELECT e.name, coalesce(o.status, e.status), count(*)
  FROM events e LEFT JOIN outcomes o ON o.seq = e.seq
 GROUP BY 1, 2;

-- name: sizes
-- Rows by table, the newest seq, the size of the file in bytes.
SELECT (SELECT count(*) FROM events), (SELECT count(*) FROM outcomes),
       (SELECT count(*) FROM completions), (SELECT count(*) FROM attempts),
       (SELECT count(*) FROM agents), (SELECT count(*) FROM messages),
       (SELECT count(*) FROM state),
       (SELECT coalesce(max(seq), 0) FROM events),
       (SELECT page_count FROM pragma_page_count) * (SELECT page_size FROM pragma_page_size);

-- name: agents
-- The agents that live, in the order of their spawning.
SELECT spec, tainted FROM agents WHERE state = 'active' ORDER BY spawned, agent_id;

-- name: conversation
-- What an agent has heard and said, in order.
SELECT m.role, m.content, m.name, m.call_id, m.is_error, m.native, e.data
  FROM messages m LEFT JOIN events e ON e.id = m.text_of
 WHERE m.agent_id = ? AND m.position IS NOT NULL
 ORDER BY m.position;

-- name: readings
-- What an agent was given to read that nobody vouches for: results, messages of others, quotations.
SELECT m.content, e.data
  FROM messages m LEFT JOIN events e ON e.id = m.text_of
 WHERE m.agent_id = ? AND m.position IS NOT NULL AND (m.untrusted = 1 OR m.role = 'tool')
 ORDER BY m.position DESC LIMIT ?;

-- name: pending_messages
-- Messages to living agents whose exchange has not ended, in the order of arrival.
SELECT m.agent_id, m.request_id, m.content, m.untrusted, m.position IS NOT NULL,
       (SELECT c.id FROM completions c
         WHERE c.state = 'stored' AND c.request_id = m.request_id AND c.agent_id = m.agent_id
         ORDER BY c.turn DESC LIMIT 1),
       (SELECT coalesce(c.counts, json_object('turn', c.turn)) FROM completions c
         WHERE c.request_id = m.request_id AND c.agent_id = m.agent_id
         ORDER BY c.turn DESC LIMIT 1),
       m.tainted, e.data
  FROM messages m JOIN agents a ON a.agent_id = m.agent_id
  LEFT JOIN events e ON e.id = m.text_of
 WHERE m.kind = 'message' AND m.answered = 0 AND a.state = 'active'
 ORDER BY m.id;

-- name: completion
-- One completion by its id.
SELECT id, ts, agent_id, request_id, turn, provider, model, preset, stop_reason, latency_us,
       input_tokens, output_tokens, state, extractor
  FROM completions
 WHERE id = ?;

-- name: usage
-- What the replies to a living agent have cost since its spawn, and of how many nobody knows.
SELECT count(*), coalesce(sum(input_tokens), 0), coalesce(sum(output_tokens), 0),
       coalesce(sum(cached_tokens), 0), sum(cost_nusd) / 1e9, count(*) - count(cost_nusd)
  FROM completions
 WHERE agent_id = ? AND ts >= (SELECT spawned FROM agents WHERE agent_id = ?);

-- name: attempts
-- The blocks of one completion in source order, each with the event it led to.
SELECT a.completion_id, a.ordinal, a.agent_id, a.provider, a.model, a.dialect, a.tool, a.verdict,
       a.code, a.repairs, a.span_start, a.span_end, a.event_id, a.size, a.tries, a.suspect,
       a.complex, a.ts, a.corrected, e.seq,
       coalesce(o.status, e.status), json_extract(coalesce(o.error, e.error), '$.code')
  FROM attempts a
  LEFT JOIN events e ON e.id = a.event_id
  LEFT JOIN outcomes o ON o.seq = e.seq
 WHERE a.completion_id = ?
 ORDER BY a.ordinal;

-- name: state
-- One value by its key.
SELECT namespace, key, value, version, ts, tainted FROM state
 WHERE namespace = ? AND key = ? AND value IS NOT NULL;

-- name: states
-- The first values of a namespace whose keys match, by key.
SELECT namespace, key, value, version, ts, tainted FROM state
 WHERE namespace = ? AND value IS NOT NULL AND key >= ? AND matches(?, key)
 ORDER BY key
 LIMIT ?;

-- name: mcp_servers
-- The MCP servers with their approved tools, in the order in which they were added.
SELECT name, spec, tools FROM mcp_servers ORDER BY added, name;
