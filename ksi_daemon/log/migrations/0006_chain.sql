-- The chain of hashes (chain.py), and what keeps rows from being changed.
ALTER TABLE events ADD COLUMN hash BLOB;

-- at is the newest event when the outcome was written: the hash of the next one covers it. Without
-- a reference to events, since an outcome outlives a pruned event until that next one is pruned.
CREATE TABLE outcomes_of_schema_5 AS SELECT * FROM outcomes;
DROP TABLE outcomes;
CREATE TABLE outcomes (
    seq         INTEGER PRIMARY KEY,
    ts          INTEGER NOT NULL,
    status      TEXT    NOT NULL,
    result      TEXT,
    error       TEXT,
    duration_us INTEGER,
    at          INTEGER NOT NULL
) STRICT;
INSERT INTO outcomes SELECT *, 0 FROM outcomes_of_schema_5;
DROP TABLE outcomes_of_schema_5;
CREATE INDEX outcomes_at ON outcomes (at);

-- Where the chain begins: the last event that was pruned, or that has no hash yet.
CREATE TABLE anchor (
    one  INTEGER PRIMARY KEY CHECK (one = 1),
    seq  INTEGER NOT NULL,
    hash BLOB    NOT NULL
) STRICT;
INSERT INTO anchor
SELECT 1, coalesce((SELECT seq FROM sqlite_sequence WHERE name = 'events'), 0), zeroblob(32);

CREATE TRIGGER events_unchanged BEFORE UPDATE ON events
BEGIN SELECT RAISE(ABORT, 'events are never changed'); END;
CREATE TRIGGER events_kept BEFORE DELETE ON events WHEN OLD.seq > (SELECT seq FROM anchor)
BEGIN SELECT RAISE(ABORT, 'events are deleted by ksi log prune only'); END;
CREATE TRIGGER outcomes_unchanged BEFORE UPDATE ON outcomes
BEGIN SELECT RAISE(ABORT, 'outcomes are never changed'); END;
CREATE TRIGGER outcomes_kept BEFORE DELETE ON outcomes WHEN OLD.at >= (SELECT seq FROM anchor)
BEGIN SELECT RAISE(ABORT, 'outcomes are deleted by ksi log prune only'); END;
CREATE TRIGGER anchor_follows BEFORE UPDATE ON anchor
WHEN NEW.seq < OLD.seq
  OR NOT EXISTS (SELECT 1 FROM events WHERE seq = NEW.seq AND hash = NEW.hash)
BEGIN SELECT RAISE(ABORT, 'the anchor only moves on to a later event'); END;
CREATE TRIGGER anchor_kept BEFORE DELETE ON anchor
BEGIN SELECT RAISE(ABORT, 'the anchor stays'); END;
