-- Pruned events that something living still names: what set a timer, what an agent has to answer.
-- Read by id where the log has no such event any more.
CREATE TABLE kept_events (
    id             TEXT    PRIMARY KEY,
    seq            INTEGER NOT NULL,
    ts             INTEGER NOT NULL,
    name           TEXT    NOT NULL,
    data           TEXT    NOT NULL,
    source         TEXT    NOT NULL,
    correlation_id TEXT    NOT NULL,
    cause_id       TEXT,
    hop            INTEGER NOT NULL,
    agent_id       TEXT,
    completion_id  TEXT,
    call           TEXT,
    status         TEXT    NOT NULL,
    error          TEXT,
    duration_us    INTEGER
) STRICT, WITHOUT ROWID;
