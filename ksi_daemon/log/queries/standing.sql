-- name: rules
-- The routing rules, in the order in which they were made.
SELECT name, spec, agent_id, made, position, fires FROM rules ORDER BY made, name;

-- name: timers
-- The timers, the one that is due first first.
SELECT name, spec, agent_id, event_id, due, fires FROM timers ORDER BY due, name;

-- name: spawns
-- How many children and descendants agents have had, by the event that spawned them.
SELECT spawn_id, children, descendants FROM spawns;

-- name: said
-- What living agents said last of themselves.
SELECT agent_id, said FROM agents WHERE state = 'active' AND length(said) > 2;
