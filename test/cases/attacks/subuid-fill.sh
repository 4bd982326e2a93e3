#!/usr/bin/env bash
# case: one user closes a host to others with tiny reservations of its subordinate user ids
# limit: 180
. "$CASES/lib.sh"
attacked
as mallory python3 "$CASES/attacks/subuid.py" 9 "$CASES/attacks/subuid-fill.py" >"$WORK/out" 2>&1 || true
cat "$WORK/out"
grep -q '^reserved' "$WORK/out" || fault 'nobody was granted anything: the case proves nothing'
as bob "$BURSAR" run --memory 8MiB --cpu 10m -l user=bob -- true || fault 'bob cannot run an engine any more'
