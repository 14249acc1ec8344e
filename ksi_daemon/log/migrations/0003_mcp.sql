-- The MCP servers that a person added, each with its tools as they were approved: a server that
-- changes one of them may not use it until a person approves it again.
CREATE TABLE mcp_servers (
    name  TEXT    PRIMARY KEY,
    spec  TEXT    NOT NULL,
    tools TEXT    NOT NULL,      -- JSON
    added INTEGER NOT NULL
) STRICT, WITHOUT ROWID;
