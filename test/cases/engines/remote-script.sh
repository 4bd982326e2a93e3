#!/usr/bin/env bash
# case: a script from elsewhere is refused or changed, or a missing file holds the agent up
# limit: 90
. "$CASES/lib.sh"
attacked "engines: {cgroups: none, logDir: $WORK/logs, remote: {accounts: [alice]}}"
may_launch alice alice
python3 "$CASES/engines/remote_script.py"
