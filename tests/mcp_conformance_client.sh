#!/bin/bash
# What the public MCP conformance suite starts as our client: PORT URL. The test that runs the suite
# listens at PORT, has our client do what a client does at URL, and says how it ended. A Python
# for each of its scenarios, all at once, would take longer than the suite waits.
exec 3<>"/dev/tcp/127.0.0.1/$1"
echo "$2" >&3
read -r status <&3
exit "$status"
