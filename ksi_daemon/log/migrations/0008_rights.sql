-- How often rights with a budget were used. A purse is named FAMILY/AGENT.NUMBER, by the events
-- that brought the first of the family and its holder to life.
CREATE TABLE purses (
    purse TEXT    PRIMARY KEY,
    used  INTEGER NOT NULL
) STRICT, WITHOUT ROWID;

-- The event by which an agent first read untrusted text, NULL while it has not; and whether such
-- text is in a message that waits.
ALTER TABLE agents ADD COLUMN tainted TEXT;
ALTER TABLE messages ADD COLUMN tainted INTEGER NOT NULL DEFAULT 0;
