-- What an exchange had used up and got wrong by each of its replies: a crash must not give a budget
-- back. Of the tokens that went in, those that the vendor had in its cache.
ALTER TABLE completions ADD COLUMN counts TEXT;                               -- JSON
ALTER TABLE completions ADD COLUMN cached_tokens INTEGER NOT NULL DEFAULT 0;

CREATE INDEX completions_request ON completions (request_id, turn) WHERE request_id IS NOT NULL;
