-- What is counted of replies and of the blocks in them (counts.py), and the roll-up of it.

ALTER TABLE completions ADD COLUMN cost_nusd INTEGER;        -- billionths of a US dollar, NULL unknown

ALTER TABLE attempts ADD COLUMN size INTEGER NOT NULL DEFAULT 0;     -- characters
ALTER TABLE attempts ADD COLUMN tries INTEGER NOT NULL DEFAULT 1;    -- 2: after one correction
ALTER TABLE attempts ADD COLUMN suspect INTEGER NOT NULL DEFAULT 0;  -- fired, maybe not meant
ALTER TABLE attempts ADD COLUMN complex INTEGER;                     -- NULL: could not be read
UPDATE attempts SET size = span_end - span_start;

-- Completions that never came, by the event that tells of it.
CREATE TABLE failures (
    event_id TEXT    PRIMARY KEY,
    ts       INTEGER NOT NULL,
    agent_id TEXT,
    provider TEXT    NOT NULL,
    model    TEXT    NOT NULL,
    code     TEXT    NOT NULL
) STRICT, WITHOUT ROWID;
CREATE INDEX failures_ts ON failures (ts);

-- Counts of an hour or a day (span, in seconds) from start on (seconds since 1970, UTC), by the
-- keys of a cube; '' is a key that the cube has not, or none.
CREATE TABLE rollup (
    id       INTEGER PRIMARY KEY,
    cube     TEXT    NOT NULL,
    span     INTEGER NOT NULL CHECK (span IN (3600, 86400)),
    start    INTEGER NOT NULL,
    agent    TEXT    NOT NULL,
    model    TEXT    NOT NULL,
    provider TEXT    NOT NULL,
    dialect  TEXT    NOT NULL,
    tool     TEXT    NOT NULL,
    size     TEXT    NOT NULL,
    counts   TEXT    NOT NULL,                               -- JSON: numbers by name
    UNIQUE (cube, span, start, agent, model, provider, dialect, tool, size)
) STRICT;

-- Days before this one have rows of their own; NULL: nothing is counted yet.
CREATE TABLE rollup_days (
    one    INTEGER PRIMARY KEY CHECK (one = 1),
    before INTEGER
) STRICT;
INSERT INTO rollup_days VALUES (1, NULL);

DROP VIEW v_reliability;
DROP VIEW v_attempts;

-- Blocks that are calls or look like calls, with the event that each became and how that ended.
-- came_to is the last stage that it reached, reason why not further.
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
       a.size,
       a.complex,
       a.tries,
       a.verdict,
       a.code,
       a.repairs,
       a.suspect,
       a.span_start,
       a.span_end,
       a.corrected,
       e.seq                                               AS event_seq,
       a.event_id,
       coalesce(o.status, e.status)                        AS status,
       json_extract(coalesce(o.error, e.error), '$.code')  AS error_code,
       CASE WHEN a.verdict IN ('rejected', 'held') THEN a.verdict
            WHEN e.seq IS NULL THEN 'nothing'
            WHEN coalesce(o.status, e.status) <> 'rejected' THEN coalesce(o.status, e.status)
            WHEN json_extract(coalesce(o.error, e.error), '$.code') = 'args_schema' THEN 'invalid'
            ELSE 'refused' END                             AS came_to,
       coalesce(a.code, json_extract(coalesce(o.error, e.error), '$.code')) AS reason
  FROM attempts a
  JOIN completions c ON c.id = a.completion_id
  LEFT JOIN events e ON e.id = a.event_id
  LEFT JOIN outcomes o ON o.seq = e.seq;

-- Of the blocks of each model and dialect: how many were usable, handled, refused. rate is
-- handled / (seen - quoted), low and high its 95 % interval. A dialect of NULL counts the
-- completions without any block.
CREATE VIEW v_reliability AS
WITH parts AS (
    SELECT model, dialect, counts FROM rollup, rollup_days
     WHERE cube = 'dialect' AND span = 86400 AND start < before
     UNION ALL
    SELECT model, dialect, counts FROM rollup, rollup_days
     WHERE cube = 'dialect' AND span = 3600 AND start >= before),
sums AS (
    SELECT model,
           nullif(dialect, '')                                     AS dialect,
           total(json_extract(counts, '$.completions'))            AS completions,
           total(json_extract(counts, '$.seen'))                   AS seen,
           total(json_extract(counts, '$.strict'))                 AS strict,
           total(json_extract(counts, '$.repaired'))               AS repaired,
           total(json_extract(counts, '$.rejected'))               AS rejected,
           total(json_extract(counts, '$.invalid'))                AS invalid,
           total(json_extract(counts, '$.unknown'))                AS unknown,
           total(json_extract(counts, '$.denied'))                 AS denied,
           total(json_extract(counts, '$.handled'))                AS handled,
           total(json_extract(counts, '$.failed'))                 AS failed,
           total(json_extract(counts, '$.corrected'))              AS corrected,
           total(json_extract(counts, '$.held'))                   AS quoted,
           total(json_extract(counts, '$.input_tokens'))
               + total(json_extract(counts, '$.output_tokens'))    AS tokens,
           total(json_extract(counts, '$.cost_nusd')) / 1e9        AS usd,
           total(json_extract(counts, '$.priced'))                 AS priced,
           total(json_extract(counts, '$.errors'))                 AS errors,
           total(json_extract(counts, '$.suspect'))                AS suspects,
           total(json_extract(counts, '$.missed'))                 AS lost
      FROM parts
     GROUP BY 1, 2),
rates AS (
    SELECT *, seen - quoted AS n, handled / nullif(seen - quoted, 0) AS rate FROM sums)
SELECT model,
       dialect,
       CAST(completions AS INTEGER)                                AS completions,
       CAST(seen AS INTEGER)                                       AS seen,
       CAST(strict AS INTEGER)                                     AS strict,
       CAST(repaired AS INTEGER)                                   AS repaired,
       CAST(rejected AS INTEGER)                                   AS rejected,
       CAST(invalid AS INTEGER)                                    AS invalid,
       CAST(unknown AS INTEGER)                                    AS unknown,
       CAST(denied AS INTEGER)                                     AS denied,
       CAST(handled AS INTEGER)                                    AS handled,
       CAST(failed AS INTEGER)                                     AS failed,
       CAST(corrected AS INTEGER)                                  AS corrected,
       CAST(quoted AS INTEGER)                                     AS quoted,
       rate,
       -- Wilson's interval; 3.8414588206941236 is 1.959963984540054 squared.
       max(0.0, (rate + 3.8414588206941236 / (2 * n) - 1.959963984540054
           * sqrt(rate * (1 - rate) / n + 3.8414588206941236 / (4 * n * n)))
           / (1 + 3.8414588206941236 / n))                         AS low,
       min(1.0, (rate + 3.8414588206941236 / (2 * n) + 1.959963984540054
           * sqrt(rate * (1 - rate) / n + 3.8414588206941236 / (4 * n * n)))
           / (1 + 3.8414588206941236 / n))                         AS high,
       CAST(tokens AS INTEGER)                                     AS tokens,
       CASE WHEN priced > 0 THEN usd END                           AS usd,
       CAST(errors AS INTEGER)                                     AS errors,
       CAST(suspects AS INTEGER)                                   AS suspects,
       CAST(lost AS INTEGER)                                       AS lost
  FROM rates;
