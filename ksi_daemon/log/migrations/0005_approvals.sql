-- Calls that wait for a person. The digest binds who asks, what exactly, and by which rights; an
-- approval has one verdict, and that of a granted one is committed together with its event.
CREATE TABLE approvals (
    approval_id TEXT    PRIMARY KEY,
    agent_id    TEXT    NOT NULL,
    event_id    TEXT    NOT NULL,                          -- the call, as it was denied
    event       TEXT    NOT NULL,
    data        TEXT    NOT NULL,
    digest      BLOB    NOT NULL,
    made        INTEGER NOT NULL,
    expires     INTEGER NOT NULL
) STRICT, WITHOUT ROWID;

CREATE TABLE verdicts (
    approval_id TEXT    PRIMARY KEY REFERENCES approvals (approval_id) ON DELETE CASCADE,
    verdict     TEXT    NOT NULL CHECK (verdict IN ('granted', 'denied')),
    source      TEXT    NOT NULL,
    ts          INTEGER NOT NULL
) STRICT, WITHOUT ROWID;
