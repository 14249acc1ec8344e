-- name: prune_oldest
-- The oldest events with their times.
SELECT seq, ts FROM events ORDER BY seq LIMIT ?;

-- name: prune_span
-- How many events there are.
SELECT coalesce((SELECT max(seq) FROM events) - (SELECT min(seq) FROM events) + 1, 0);

-- name: prune_next_known_time
-- The time of the first event after a seq that is not later than the present.
SELECT ts FROM events WHERE seq > ? AND ts <= ? ORDER BY seq LIMIT 1;

-- name: prune_unfinished
-- The oldest event up to a seq that has not ended.
SELECT e.seq FROM events e
 WHERE e.status = 'received' AND e.seq <= ?
   AND NOT EXISTS (SELECT 1 FROM outcomes o WHERE o.seq = e.seq)
 ORDER BY e.seq LIMIT 1;

-- name: prune_keep
-- Keep the events up to a seq that a timer or a message without an answer still names.
INSERT OR IGNORE INTO kept_events
SELECT e.id, e.seq, e.ts, e.name, e.data, e.source, e.correlation_id, e.cause_id, e.hop,
       e.agent_id, e.completion_id, e.call, coalesce(o.status, e.status),
       coalesce(o.error, e.error), coalesce(o.duration_us, e.duration_us)
  FROM (SELECT event_id AS id FROM timers
        UNION
        SELECT request_id FROM messages WHERE kind = 'message' AND answered = 0
        UNION
        SELECT c.id FROM completions c
          JOIN messages m ON m.request_id = c.request_id AND m.agent_id = c.agent_id
         WHERE c.state = 'stored' AND m.kind = 'message' AND m.answered = 0) named
  JOIN events e ON e.id = named.id
  LEFT JOIN outcomes o ON o.seq = e.seq
 WHERE e.seq <= ?;

-- name: prune_kept
-- Forget kept events that nothing names any more.
DELETE FROM kept_events
 WHERE id NOT IN (SELECT event_id FROM timers)
   AND id NOT IN (SELECT request_id FROM messages WHERE kind = 'message' AND answered = 0)
   AND id NOT IN (SELECT c.id FROM completions c
                    JOIN messages m ON m.request_id = c.request_id AND m.agent_id = c.agent_id
                   WHERE c.state = 'stored' AND m.kind = 'message' AND m.answered = 0);

-- name: prune_completions
-- Delete the completions, and with them the attempts, of the events up to a seq.
DELETE FROM completions
 WHERE id IN (SELECT id FROM events WHERE seq <= ? AND name = 'completion:result')
   AND id NOT IN (SELECT id FROM kept_events);

-- name: prune_failures
-- Delete the failures of the events up to a seq.
DELETE FROM failures WHERE event_id IN (SELECT id FROM events WHERE seq <= ?);

-- name: prune_manners
-- Forget ways of reading by which no reply was read any more.
DELETE FROM manners WHERE id NOT IN (SELECT manner FROM readings);

-- name: prune_approvals
-- Delete the approvals, and with them the verdicts, of the events up to a seq.
DELETE FROM approvals
 WHERE event_id IN (SELECT id FROM events WHERE seq <= ? AND status = 'denied');

-- name: prune_outcomes
-- Delete the outcomes of the events up to a seq that no hash of a later event covers.
DELETE FROM outcomes WHERE seq <= ? AND at < ?;

-- name: prune_events
-- Delete the events up to a seq.
DELETE FROM events WHERE seq <= ?;

-- name: prune_agents
-- Forget agents that were terminated before the oldest event.
DELETE FROM agents
 WHERE state = 'terminated' AND ended < (SELECT ts FROM events ORDER BY seq LIMIT 1);

-- name: kept_event
-- One event that was pruned and is kept for something that names it.
SELECT seq, id, ts, name, data, source, correlation_id, cause_id, hop, agent_id, completion_id,
       call, status, error, duration_us
  FROM kept_events
 WHERE id = ?;

-- name: newest_time
-- When the newest event was.
SELECT ts FROM events ORDER BY seq DESC LIMIT 1;
