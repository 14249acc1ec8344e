-- What an agent has cost since it was spawned.
CREATE INDEX completions_agent ON completions (agent_id, ts) WHERE agent_id IS NOT NULL;
