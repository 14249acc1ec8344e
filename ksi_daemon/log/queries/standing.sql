-- name: rules
-- The routing rules, in the order in which they were made.
SELECT name, spec, agent_id, made, position, fires FROM rules ORDER BY made, name;

-- name: timers
-- The timers, the one that is due first first.
SELECT name, spec, agent_id, event_id, due, fires FROM timers ORDER BY due, name;

-- name: spawns
-- How many children and descendants agents have had, by the event that spawned them.
SELECT spawn_id, children, descendants FROM spawns;

-- name: story_size
-- How many events of a story were submitted by agents and handlers.
SELECT count(*) FROM events
 WHERE correlation_id = ? AND source <> 'system' AND source NOT GLOB 'client:*';

-- name: purses
-- How often rights with a budget were used.
SELECT purse, used FROM purses;

-- name: said
-- What living agents said last of themselves.
SELECT agent_id, said FROM agents WHERE state = 'active' AND length(said) > 2;

-- name: delivered
-- Messages to agents whose sending has no end and that are in a mailbox all the same.
SELECT e.seq, e.id
  FROM events e
  JOIN messages m ON m.agent_id = json_extract(e.data, '$.agent_id') AND m.request_id = e.id
  LEFT JOIN outcomes o ON o.seq = e.seq
 WHERE e.status = 'received' AND o.seq IS NULL AND e.name = 'agent:send' AND m.kind = 'message'
 ORDER BY e.seq;
