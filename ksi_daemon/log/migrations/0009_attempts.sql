-- Attempts that went wrong: how their replies were read, what the model was told, what a person
-- did about them.

-- How replies are read: the settings of extraction and the schemas of the agent's tools, by a
-- digest of both. A reply can be read again by what it was read by.
CREATE TABLE manners (
    id       BLOB    PRIMARY KEY,
    protocol TEXT    NOT NULL,                             -- JSON
    tools    TEXT    NOT NULL,                             -- JSON: schemas by name
    native   INTEGER NOT NULL
) STRICT, WITHOUT ROWID;

CREATE TABLE readings (
    completion_id TEXT PRIMARY KEY REFERENCES completions (id) ON DELETE CASCADE,
    manner        BLOB NOT NULL
) STRICT, WITHOUT ROWID;

-- What the agent was told of a call that went wrong.
CREATE TABLE corrections (
    completion_id TEXT    NOT NULL,
    ordinal       INTEGER NOT NULL,
    text          TEXT    NOT NULL,
    PRIMARY KEY (completion_id, ordinal),
    FOREIGN KEY (completion_id, ordinal) REFERENCES attempts ON DELETE CASCADE
) STRICT, WITHOUT ROWID;

-- What was done about an attempt, in order: fixed by an event of its own, or dismissed.
CREATE TABLE fixes (
    completion_id TEXT    NOT NULL,
    ordinal       INTEGER NOT NULL,
    number        INTEGER NOT NULL,
    kind          TEXT    NOT NULL CHECK (kind IN ('again', 'edited', 'dismissed')),
    event_id      TEXT,                                    -- the event that was submitted
    source        TEXT    NOT NULL,
    reason        TEXT    NOT NULL DEFAULT '',
    ts            INTEGER NOT NULL,
    PRIMARY KEY (completion_id, ordinal, number),
    FOREIGN KEY (completion_id, ordinal) REFERENCES attempts ON DELETE CASCADE
) STRICT, WITHOUT ROWID;

CREATE INDEX fixes_event ON fixes (event_id) WHERE event_id IS NOT NULL;

-- Few calls go wrong, and these lead to them.
CREATE INDEX events_refused ON events (seq)
    WHERE call IS NOT NULL AND status NOT IN ('received', 'handled');
CREATE INDEX outcomes_bad ON outcomes (seq) WHERE status <> 'handled';
