"""An MCP server for tests, by hand, so that it can do what no server should.

    python mcp_server.py TOOLS      TOOLS: a file with the list of tools, read at each listing

Each tool does what its name says; see ``run``.
"""

from __future__ import annotations

import json
import os
import signal
import sys
import threading
import time
from pathlib import Path
from typing import Any

PIXEL = "iVBORw0KGgo="


def tool(name: str, **rest: Any) -> dict[str, Any]:
    """Return the description of a tool."""
    return {"name": name, "description": f"Do {name}.", "inputSchema": {"type": "object"}, **rest}


def write(message: dict[str, Any]) -> None:
    sys.stdout.write(json.dumps({"jsonrpc": "2.0", **message}) + "\n")
    sys.stdout.flush()


def text(said: str, **rest: Any) -> dict[str, Any]:
    return {"content": [{"type": "text", "text": said}], **rest}


def run(name: str, arguments: dict[str, Any]) -> dict[str, Any] | None:
    """Return the result of tool *name*; None for no answer at all."""
    match name:
        case "echo":
            return text(arguments.get("text", ""))
        case "environment":
            return text(json.dumps(dict(os.environ)))
        case "fail":
            return text("the disk is full", isError=True)
        case "picture":
            image = {"type": "image", "data": PIXEL, "mimeType": "image/png"}
            link = {"type": "resource_link", "uri": "file:///etc/passwd", "name": "p"}
            return {"content": [{"type": "text", "text": "here"}, image, link]}
        case "number":
            return {"content": [], "structuredContent": {"value": 3}}
        case "lie":
            return {"content": [], "structuredContent": {"value": "three"}}
        case "nonsense":
            return {"content": 3}
        case "change":
            write({"method": "notifications/tools/list_changed"})
            return text("changed")
        case "stay":
            signal.signal(signal.SIGTERM, signal.SIG_IGN)
            return text(str(os.getpid()))
        case "flood":
            for _ in range(2_000):
                write({"method": "notifications/tools/list_changed"})
            return text("flooded")
        case "leave":
            # Gone once the answer is read: nobody waits for anything then.
            threading.Timer(0.05, os._exit, [0]).start()
            return text("bye")
        case "chatter":
            sys.stdout.write("this is a line of a log\n{\n\n")
            return text("still here")
        case "huge":
            sys.stdout.write("x" * (64 * 1024 * 1024))
            sys.stdout.flush()
        case "die":
            sys.stderr.write("out of cheese\n")
            sys.exit(3)
    return None


def answer(request: dict[str, Any]) -> None:
    match request["method"]:
        case "initialize":
            info = {"name": "fake", "version": "1"}
            version = request["params"]["protocolVersion"]
            capabilities = {"tools": {"listChanged": True}}
            result: Any = {
                "protocolVersion": version,
                "capabilities": capabilities,
                "serverInfo": info,
            }
        case "tools/list":
            # Two to a page.
            listed = json.loads(Path(sys.argv[1]).read_text())
            start = int(request.get("params", {}).get("cursor") or 0)
            result = {"tools": listed[start : start + 2]}
            if start + 2 < len(listed):
                result["nextCursor"] = str(start + 2)
        case "tools/call":
            params = request["params"]
            if params["name"] == "refuse":
                write({"id": request["id"], "error": {"code": -32602, "message": "not today"}})
                return
            result = run(params["name"], params.get("arguments") or {})
            if result is None:
                return
        case _:
            write({"id": request["id"], "error": {"code": -32601, "message": "no such method"}})
            return
    write({"id": request["id"], "result": result})


def main() -> None:
    for line in sys.stdin:
        request = json.loads(line)
        if "id" in request and "method" in request:
            answer(request)
    while signal.getsignal(signal.SIGTERM) is signal.SIG_IGN:
        time.sleep(60)


if __name__ == "__main__":
    main()
