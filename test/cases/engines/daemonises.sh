#!/usr/bin/env bash
# case: a foreground run loses the booking of an engine that becomes a daemon
. "$CASES/lib.sh"
coordinator
agent h1
P=$WORK/tmp/pid

# forks NAME COMMAND...: run in the background of this case, until its daemon runs. RUN is its pid.
forks() {
  local name=$1
  shift
  rm -f "$P"
  start "$name" "$BURSAR" run --memory 64MiB --grace 2s -l user=root -l "t=$name" -- "$@"
  RUN=$LAST
  within 10 test -s "$P" || { fault "$*: no daemon: $(cat "$WORK/$name.log")"; exit 1; }
}
daemon() { cat "$P"; }
booked() { b allocations -l "t=$1" | grep ' active '; }
ends() { b allocations --ended -l "t=$1" -o json | grep '"reason"'; }
kept() {
  within 10 sh -c "grep -q 'still run' '$WORK/$1.log'" || fault "$1: run says nothing of the daemon: $(cat "$WORK/$1.log")"
  runs "$(daemon)" || fault "$1: the daemon has ended"
  booked "$1" >/dev/null || fault "$1: the daemon runs without a booking"
}
PY="python3 $CASES/engines/daemon.py $P 20"
SH="echo \$\$ > $P; exec sleep 600"

say 'a double fork, setsid, nohup, a pipeline, another user: the allocation stays until the daemon ends'
forks fork sh -c "$PY; exit 3" && kept fork
within 10 sh -c "'$BURSAR' allocations -l t=fork | grep 'main process ended (code 3)'" || fault 'the end of the main process is not shown'
kill -9 "$(daemon)"
ended "$RUN"
((CODE == 3)) || fault "run ends with $CODE, not with its command's 3"
ends fork | grep -q 'last process was killed by SIGKILL; main process had ended with exit code 3 at' || fault "the daemon was killed: $(ends fork)"
echo "$SH" > "$WORK/sh"
chmod 755 "$WORK/sh"
for how in "setsid sh $WORK/sh & exit 0" "nohup sh $WORK/sh >/dev/null 2>&1 & exit 0" "sh $WORK/sh | cat >/dev/null & exit 0" \
  "setpriv --reuid alice --regid alice --clear-groups setsid sh $WORK/sh >/dev/null 2>&1 & exit 0"; do
  forks how sh -c "$how" && kept how
  kill -9 "$(daemon)"
  ended "$RUN"
  ((CODE == 0)) || fault "$how: run ends with $CODE"
done

say 'a signal to run stops the daemon; a kill of run leaves it booked, and stop finds it'
forks term sh -c "$PY" && kept term
kill -TERM "$RUN"
ended "$RUN"
((CODE == 143)) || fault "run ends with $CODE after SIGTERM"
runs "$(daemon)" && fault 'the daemon goes on without a booking'
forks killed sh -c "$PY" && kept killed
kill -9 "$RUN"
sleep 3
runs "$(daemon)" || fault 'the daemon ended with run'
booked killed >/dev/null || fault 'the daemon runs without a booking once run was killed'
kill "$AGENT"
ended "$AGENT"
start agent "$BURSAR" agent --config "$WORK/agent.yaml" --log-format text
AGENT=$LAST
sleep 4
booked killed >/dev/null || fault 'the daemon lost its booking with a restart of the agent'
b stop "$(b allocations -l t=killed -o json | sed -n 's/.*"id": "\(.*\)",/\1/p' | head -1)" --wait 15s >/dev/null || fault 'stop does not find the daemon'
runs "$(daemon)" && fault 'the daemon outlives stop'
true
