-- A long text of a conversation stands in its event only: the reply in completion:result, the
-- message in agent:send. text_of is the id of that event, and content is empty then.
ALTER TABLE messages ADD COLUMN text_of TEXT;

CREATE INDEX messages_text_of ON messages (text_of) WHERE text_of IS NOT NULL;
