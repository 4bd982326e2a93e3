#!/usr/bin/env bash
# case: an engine that is started from elsewhere counts as started before it can be used
# limit: 90
. "$CASES/lib.sh"
attacked "engines: {cgroups: none, logDir: $WORK/logs, remote: {accounts: [alice]}}"
may_launch alice alice
AGENT=$AGENT OTHERS=$((PORT + 50)) python3 "$CASES/engines/remote_ready.py"
