-- name: pending_approvals
-- The calls of living agents that wait for a person, the oldest first; expired ones too.
SELECT p.approval_id, p.agent_id, p.event_id, p.event, p.data, p.digest, p.made, p.expires
  FROM approvals p
  JOIN agents a ON a.agent_id = p.agent_id AND a.state = 'active' AND a.spawned <= p.made
  LEFT JOIN verdicts v ON v.approval_id = p.approval_id
 WHERE v.approval_id IS NULL
 ORDER BY p.made, p.approval_id;
