#!/usr/bin/env bash
# case: at a coordinator's loopback each subordinate user id has a quota of its own under user=*
. "$CASES/lib.sh"
coordinator
agent h1
b quota set 'user=*' --memory 100MiB --cpu 1
as mallory python3 "$CASES/attacks/subuid.py" 4 "$CASES/attacks/subuid-loopback.py" >"$WORK/out" 2>&1 || true
cat "$WORK/out"
granted=$(grep -c '^granted' "$WORK/out" || true)
((granted <= 1)) || fault "one user has $granted times the quota of user=*"
((granted == 1)) || fault 'nobody was granted anything: the case proves nothing'
