#!/usr/bin/env bash
# case: the daemon of a launched engine is killed, and its end reads exit code 0
. "$CASES/lib.sh"
coordinator
agent h1
PY="python3 $CASES/engines/daemon.py $WORK/pid 20"
launch() { rm -f "$WORK/pid"; ID=$(b run --detach --memory 64MiB -l user=root "$@" 2>/dev/null); }
shows() { b allocations "$ID" | grep -E "$1"; }

say 'a killed daemon'
launch -- sh -c "$PY; exit 0"
within 10 test -s "$WORK/pid"
within 10 shows '^main process +ended .*, code 0; policy onLeaderEnd keep' || fault "the end of the main process is not shown: $(b allocations "$ID")"
kill -9 "$(cat "$WORK/pid")"
within 10 shows '^reason +last process was killed by SIGKILL; main process had ended with exit code 0 at' || fault "$(b allocations "$ID")"
shows '^exit +code 0$' >/dev/null || fault 'the main process ended with 0'

say 'the policy stop'
kill "$AGENT"
ended "$AGENT"
agent h1 "engines: {cgroups: none, logDir: $WORK/logs, policies: [{match: {p: stop}, onLeaderEnd: stop, stopGrace: 1s}]}"
launch -l p=stop -- sh -c "$PY; exit 4"
within 15 shows '^reason +stopped: its main process ended with exit code 4 .*onLeaderEnd: stop' || fault "$(b allocations "$ID")"
runs "$(cat "$WORK/pid")" && fault 'the daemon goes on'
true
