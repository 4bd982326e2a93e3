#!/usr/bin/env bash
# case: a stop waits for the next heartbeat of the engine's host
# limit: 60
. "$CASES/lib.sh"
# Reports come each 5 s, as by default. The agent takes orders.
attacked "engines: {cgroups: none, logDir: $WORK/logs, remote: {accounts: [alice]}}" 'times: {interval: 5s}'
# stopped COMMAND...: the milliseconds from the command until the engine's process has ended.
stopped() {
  local began pid=$PID
  began=$(date +%s%3N)
  "$@" >/dev/null 2>&1
  while runs "$pid"; do
    (($(date +%s%3N) - began < 15000)) || break
    read -rt 0.02 <> <(:) || true
  done
  echo $(($(date +%s%3N) - began))
}
most=0
for command in stop stop release stop release; do
  ID=$(as alice "$BURSAR" run --detach -m 8MiB --workdir / -- sleep 1000)
  PID=$(b allocations "$ID" -o json | python3 -c 'import json, sys; print(json.load(sys.stdin)["process"]["pid"])')
  ms=$(stopped b "$command" "$ID")
  say "$command: the process has ended after $ms ms"
  ((ms <= most)) || most=$ms
done
((most < 1000)) || fault "it took up to $most ms"

say 'a signal from elsewhere'
ID=$(as alice "$BURSAR" run --detach -m 8MiB --workdir / --log-dir "$WORK/home/alice" -- bash -c 'trap "echo got it; exit 7" USR1; echo on; while :; do sleep 0.1; done')
eventually grep -q on "$WORK/home/alice/stdout"
signal() { # TOKEN
  curl -s -m 20 -H "Authorization: Bearer $(cat "$TOK/$1")" -H 'Content-Type: application/json' "http://$ADDR/bursar.v1.EngineService/Signal" -d "{\"id\": \"$ID\", \"signal\": \"SIGNAL_USR1\"}"
}
[[ $(signal mallory) == *permission_denied* ]] || fault 'mallory signals an engine of alice'
said=$(signal alice)
[[ $said == '{}' ]] || fault "alice cannot signal her engine: $said"
eventually grep -q 'got it' "$WORK/home/alice/stdout"
grep -q 'an engine was sent a signal.*alice' "$WORK/agent.log" || fault 'the agent does not log who has sent it'
