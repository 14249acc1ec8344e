-- No CHECK of JSON here: SQLite's json functions are refused in a schema that is not trusted, and
-- nothing reaches the writer that a strict decoder has not read.

-- Events, how they ended, the completions they were written in, and what agents are made of.

-- seq is the order of everything and never restarts (AUTOINCREMENT keeps it after a prune).
-- An event whose end is known when it is written carries it here; later ends go to outcomes.
CREATE TABLE events (
    seq            INTEGER PRIMARY KEY AUTOINCREMENT,
    id             TEXT    NOT NULL UNIQUE,
    ts             INTEGER NOT NULL,                       -- microseconds since 1970, UTC
    -- GLOB reads a text up to its first NUL: without this a pattern could match what it must not.
    name           TEXT    NOT NULL CHECK (instr(name, char(0)) = 0),
    data           TEXT    NOT NULL,
    source         TEXT    NOT NULL,
    correlation_id TEXT    NOT NULL,
    cause_id       TEXT,
    hop            INTEGER NOT NULL,
    agent_id       TEXT,
    completion_id  TEXT,
    call           TEXT,                                   -- JSON: id, dialect, start, end, repairs
    status         TEXT    NOT NULL,
    result         TEXT,
    error          TEXT,                                   -- JSON: code, message, hint, ...
    duration_us    INTEGER,
    idem_scope     TEXT,
    idem_key       TEXT,
    idem_digest    BLOB
) STRICT;

-- Entries of one key are in seq order: an index ends with the rowid.
CREATE UNIQUE INDEX events_idem ON events (idem_scope, idem_key) WHERE idem_key IS NOT NULL;
CREATE INDEX events_correlation ON events (correlation_id);
CREATE INDEX events_cause ON events (cause_id) WHERE cause_id IS NOT NULL;
CREATE INDEX events_agent ON events (agent_id) WHERE agent_id IS NOT NULL;
CREATE INDEX events_completion ON events (completion_id) WHERE completion_id IS NOT NULL;
-- What a restart looks through for events that have no outcome.
CREATE INDEX events_received ON events (seq) WHERE status = 'received';

-- The end of an event that was handled after it was logged.
CREATE TABLE outcomes (
    seq         INTEGER PRIMARY KEY REFERENCES events (seq) ON DELETE CASCADE,
    ts          INTEGER NOT NULL,
    status      TEXT    NOT NULL,
    result      TEXT,
    error       TEXT,
    duration_us INTEGER
) STRICT;

-- One reply of a model. Its text is in the completion:result event of the same id.
CREATE TABLE completions (
    id             TEXT PRIMARY KEY,
    ts             INTEGER NOT NULL,
    agent_id       TEXT,
    request_id     TEXT,                                   -- the message that was being answered
    turn           INTEGER NOT NULL,                       -- 1 for the first reply to a message
    provider       TEXT    NOT NULL,
    model          TEXT    NOT NULL,
    preset         TEXT    NOT NULL,
    stop_reason    TEXT,
    latency_us     INTEGER NOT NULL,
    input_tokens   INTEGER NOT NULL,
    output_tokens  INTEGER NOT NULL,
    state          TEXT    NOT NULL CHECK (state IN ('stored', 'done')),
    extractor      INTEGER NOT NULL                        -- version of the extraction
) STRICT, WITHOUT ROWID;

CREATE INDEX completions_ts ON completions (ts);
CREATE INDEX completions_unfinished ON completions (id) WHERE state = 'stored';

-- One block of a completion that is a call or looks like one; event_id leads to what became of it.
CREATE TABLE attempts (
    completion_id TEXT    NOT NULL REFERENCES completions (id) ON DELETE CASCADE,
    ordinal       INTEGER NOT NULL,
    ts            INTEGER NOT NULL,
    agent_id      TEXT,
    provider      TEXT    NOT NULL,
    model         TEXT    NOT NULL,
    dialect       TEXT    NOT NULL,
    tool          TEXT,
    verdict       TEXT    NOT NULL CHECK (verdict IN ('strict', 'repaired', 'rejected', 'held')),
    code          TEXT,
    repairs       TEXT    NOT NULL,
    span_start    INTEGER NOT NULL,
    span_end      INTEGER NOT NULL,
    event_id      TEXT,
    corrected     INTEGER NOT NULL DEFAULT 0,              -- turns until it was made good, 0 if never
    PRIMARY KEY (completion_id, ordinal)
) STRICT, WITHOUT ROWID;

CREATE TABLE agents (
    agent_id TEXT PRIMARY KEY,
    spec     TEXT NOT NULL,       -- everything a restart needs
    state    TEXT NOT NULL CHECK (state IN ('active', 'terminated')),
    spawned  INTEGER NOT NULL,
    ended    INTEGER
) STRICT, WITHOUT ROWID;

-- Mailbox and conversation in one: position is NULL while a message waits in the mailbox.
CREATE TABLE messages (
    id             INTEGER PRIMARY KEY AUTOINCREMENT,
    agent_id       TEXT    NOT NULL,
    position       INTEGER,
    role           TEXT    NOT NULL,
    content        TEXT    NOT NULL,
    kind           TEXT    NOT NULL CHECK (kind IN ('message', 'feedback', 'reply')),
    untrusted      INTEGER NOT NULL DEFAULT 0,
    request_id     TEXT    NOT NULL,                       -- the event that asked, for a reply too
    completion_id  TEXT,
    answered       INTEGER NOT NULL DEFAULT 0,             -- of a message: its exchange has ended
    ts             INTEGER NOT NULL
) STRICT;

CREATE UNIQUE INDEX messages_position ON messages (agent_id, position) WHERE position IS NOT NULL;
CREATE INDEX messages_pending ON messages (id) WHERE kind = 'message' AND answered = 0;
-- One event is delivered to one agent once, however often a crash has it delivered again.
CREATE UNIQUE INDEX messages_request ON messages (agent_id, request_id) WHERE kind = 'message';

-- A deleted key keeps its row without a value: a version that came back would let a
-- compare-and-set succeed that must fail.
CREATE TABLE state (
    namespace TEXT    NOT NULL,
    key       TEXT    NOT NULL,
    value     TEXT,
    version   INTEGER NOT NULL,
    ts        INTEGER NOT NULL,
    PRIMARY KEY (namespace, key)
) STRICT, WITHOUT ROWID;

-- Events as they stand now: time as text, the final status, result and error.
CREATE VIEW v_events AS
SELECT e.seq,
       e.id,
       strftime('%Y-%m-%dT%H:%M:%S', e.ts / 1000000, 'unixepoch')
           || printf('.%06dZ', e.ts % 1000000)            AS time,
       e.name                                              AS event,
       e.data,
       e.source,
       e.agent_id,
       e.correlation_id,
       e.cause_id,
       e.hop,
       e.completion_id,
       e.call,
       coalesce(o.status, e.status)                        AS status,
       coalesce(o.result, e.result)                        AS result,
       json_extract(coalesce(o.error, e.error), '$.code')  AS error_code,
       coalesce(o.error, e.error)                          AS error,
       coalesce(o.duration_us, e.duration_us) / 1000.0     AS duration_ms
  FROM events e
  LEFT JOIN outcomes o ON o.seq = e.seq;

-- Blocks that are calls or look like calls, with the event that each became and how that ended.
CREATE VIEW v_attempts AS
SELECT a.completion_id,
       a.ordinal,
       strftime('%Y-%m-%dT%H:%M:%S', c.ts / 1000000, 'unixepoch')
           || printf('.%06dZ', c.ts % 1000000)            AS time,
       a.agent_id,
       a.provider,
       a.model,
       c.preset,
       a.dialect,
       a.tool,
       a.verdict,
       a.code,
       a.repairs,
       a.span_start,
       a.span_end,
       a.corrected,
       e.seq                                               AS event_seq,
       a.event_id,
       coalesce(o.status, e.status)                        AS status,
       json_extract(coalesce(o.error, e.error), '$.code')  AS error_code
  FROM attempts a
  JOIN completions c ON c.id = a.completion_id
  LEFT JOIN events e ON e.id = a.event_id
  LEFT JOIN outcomes o ON o.seq = e.seq;

-- Of the blocks of each model and dialect: how many were usable, handled, refused. rate is
-- handled / (seen - quoted). A dialect of NULL counts the completions without any block.
CREATE VIEW v_reliability AS
SELECT c.model,
       a.dialect,
       count(DISTINCT c.id)                                                     AS completions,
       count(a.ordinal)                                                         AS seen,
       count(*) FILTER (WHERE a.verdict = 'strict')                             AS strict,
       count(*) FILTER (WHERE a.verdict = 'repaired')                           AS repaired,
       count(*) FILTER (WHERE a.verdict = 'rejected')                           AS rejected,
       count(*) FILTER (WHERE a.fired AND a.status = 'rejected'
                          AND a.error_code = 'args_schema')                     AS invalid,
       count(*) FILTER (WHERE a.fired AND a.status = 'unknown')                 AS unknown,
       count(*) FILTER (WHERE a.fired AND a.status = 'denied')                  AS denied,
       count(*) FILTER (WHERE a.fired AND a.status = 'handled')                 AS handled,
       count(*) FILTER (WHERE a.fired AND a.status IN ('failed', 'timeout'))    AS failed,
       count(*) FILTER (WHERE a.corrected > 0)                                  AS corrected,
       count(*) FILTER (WHERE a.verdict = 'held')                               AS quoted,
       1.0 * count(*) FILTER (WHERE a.fired AND a.status = 'handled')
           / nullif(count(*) FILTER (WHERE a.verdict <> 'held'), 0)             AS rate
  FROM completions c
  LEFT JOIN (SELECT *, verdict IN ('strict', 'repaired') AS fired FROM v_attempts) a
    ON a.completion_id = c.id
 GROUP BY c.model, a.dialect;

-- Stories as trees: ask for one correlation_id and ORDER BY path; depth 0 is an event that
-- nothing in the log led to.
CREATE VIEW v_tree AS
SELECT e.correlation_id,
       (WITH RECURSIVE up (cause_id, path, depth) AS (
            SELECT e.cause_id, printf('%012d', e.seq), 0
            UNION
            SELECT c.cause_id, printf('%012d/', c.seq) || up.path, up.depth + 1
              FROM up JOIN events c ON c.id = up.cause_id
             WHERE up.depth < 1000)
        SELECT path FROM up ORDER BY depth DESC LIMIT 1)  AS path,
       (WITH RECURSIVE up (cause_id, depth) AS (
            SELECT e.cause_id, 0
            UNION
            SELECT c.cause_id, up.depth + 1
              FROM up JOIN events c ON c.id = up.cause_id
             WHERE up.depth < 1000)
        SELECT max(depth) FROM up)                        AS depth,
       e.seq,
       e.id,
       e.cause_id,
       e.name                                             AS event,
       e.source,
       coalesce(o.status, e.status)                       AS status
  FROM events e
  LEFT JOIN outcomes o ON o.seq = e.seq;
