-- name: what_went_wrong
-- What went wrong, the most frequent first.
SELECT event, status, error_code, count(*) AS times, max(time) AS latest
  FROM v_events
 WHERE error_code IS NOT NULL
 GROUP BY event, status, error_code
 ORDER BY times DESC;

-- name: which_model_and_form
-- How reliable each model is in each way of writing calls, with 95 % intervals.
SELECT model, dialect, seen, strict, repaired, rejected, handled,
       round(100 * rate, 1) AS rate, round(100 * low, 1) AS low, round(100 * high, 1) AS high
  FROM v_reliability
 WHERE seen > 0
 ORDER BY rate;

-- name: what_was_not_as_it_should_be
-- Blocks that were mended, refused or held, by what was wrong.
SELECT model, dialect, verdict, coalesce(code, repairs) AS what, count(*) AS times
  FROM v_attempts
 WHERE verdict <> 'strict'
 GROUP BY model, dialect, verdict, what
 ORDER BY times DESC;

-- name: latest_story
-- What the latest message to an agent led to, as a tree.
SELECT printf('%*s', 2 * depth, '') || event AS story, source, status, seq
  FROM v_tree
 WHERE correlation_id = (SELECT correlation_id FROM events WHERE name = 'agent:send'
                          ORDER BY seq DESC LIMIT 1)
 ORDER BY path;

-- name: what_agents_did
-- What each agent emitted, and how that ended.
SELECT agent_id, event, status, count(*) AS times
  FROM v_events
 WHERE source LIKE 'agent:%'
 GROUP BY agent_id, event, status
 ORDER BY agent_id, times DESC;

-- name: slowest_handlers
-- Events whose handlers took longest, in milliseconds.
SELECT event, count(*) AS times, round(avg(duration_ms), 3) AS mean, round(max(duration_ms), 3) AS longest
  FROM v_events
 WHERE duration_ms IS NOT NULL
 GROUP BY event
 ORDER BY longest DESC;

-- name: tokens_by_day
-- Replies and tokens by day and model.
SELECT date(ts / 1000000, 'unixepoch') AS day, model, count(*) AS replies,
       sum(input_tokens) AS input_tokens, sum(output_tokens) AS output_tokens
  FROM completions
 GROUP BY day, model
 ORDER BY day DESC, model;
