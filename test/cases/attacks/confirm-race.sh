#!/usr/bin/env bash
# case: one process is confirmed for several allocations of an ordinary user at once
# limit: 120
. "$CASES/lib.sh"
attacked
as mallory python3 "$CASES/attacks/confirm-race.py"
