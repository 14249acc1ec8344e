-- What acts by itself: routing rules and timers. What agents said of themselves, and how many
-- agents they brought to life.

-- A rule has seen all events up to position. agent_id is who made it, NULL for an operator.
CREATE TABLE rules (
    name     TEXT    PRIMARY KEY,
    spec     TEXT    NOT NULL,
    agent_id TEXT,
    made     INTEGER NOT NULL,
    position INTEGER NOT NULL,
    fires    INTEGER NOT NULL DEFAULT 0
) STRICT, WITHOUT ROWID;

CREATE TABLE timers (
    name     TEXT    PRIMARY KEY,
    spec     TEXT    NOT NULL,
    agent_id TEXT,
    event_id TEXT    NOT NULL,                             -- the timer:set event
    due      INTEGER NOT NULL,
    fires    INTEGER NOT NULL DEFAULT 0
) STRICT, WITHOUT ROWID;

-- The words that an agent has for itself: its last status, progress and result.
ALTER TABLE agents ADD COLUMN said TEXT NOT NULL DEFAULT '{}';

-- For how many agents one has spawned in its life, children and later descendants. The key is the
-- event that brought it to life: its id may be another's later.
CREATE TABLE spawns (
    spawn_id    TEXT    PRIMARY KEY,
    children    INTEGER NOT NULL DEFAULT 0,
    descendants INTEGER NOT NULL DEFAULT 0
) STRICT, WITHOUT ROWID;
