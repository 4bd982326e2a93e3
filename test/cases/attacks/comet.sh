#!/usr/bin/env bash
# case: processes that fork and exit outlive Stop, and go on under the policy kill with more than their grant
# limit: 120
. "$CASES/lib.sh"
gcc -O2 -o "$WORK/comet" "$CASES/attacks/comet.c"
# A cgroup for each engine, where the kernel lets this agent make them.
attacked "engines: {cgroups: auto, logDir: $WORK/logs, policies: [{match: {p: kill}, onOverUse: kill, grace: 2s, stopGrace: 1s}]}"
for how in stop kill; do
  say "$how"
  as mallory python3 "$CASES/attacks/comet.py" "$WORK/comet" "$how" || fault "the processes outlive $how"
done
