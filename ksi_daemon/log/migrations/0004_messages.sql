-- Results are messages of role tool. native is the vendor's message of a reply that has one, in the
-- form in which it goes back.
ALTER TABLE messages ADD COLUMN name TEXT;
ALTER TABLE messages ADD COLUMN call_id TEXT;
ALTER TABLE messages ADD COLUMN is_error INTEGER NOT NULL DEFAULT 0;
ALTER TABLE messages ADD COLUMN native TEXT;                 -- JSON

-- What was worth a word about a text and changed nothing, one row each.
CREATE VIEW v_diagnostics AS
SELECT e.id                                   AS completion_id,
       e.agent_id,
       json_extract(d.value, '$.code')        AS code,
       json_extract(d.value, '$.message')     AS message,
       json_extract(d.value, '$.start')       AS span_start,
       json_extract(d.value, '$.end')         AS span_end
  FROM events e, json_each(e.data, '$.diagnostics') d
 WHERE e.name = 'completion:result';
