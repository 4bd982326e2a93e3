#!/usr/bin/env bash
# case: on one machine with bursar dev nobody may have the coordinator start an engine
# limit: 90
. "$CASES/lib.sh"
# begin USER ACCOUNT ID: USER has the coordinator start `id -un` as ACCOUNT. $WORK/said has the answer.
begin() {
  local body='{"request":{"requestId":"'$3'","labels":{"user":"'$1'"},"resource":{"memoryBytes":"8388608"}},"launch":{"account":"'$2'","command":["/usr/bin/id","-un"]}}'
  local who=(as "$1")
  [[ $1 != root ]] || who=()
  "${who[@]}" curl -s -m 60 -H 'Content-Type: application/json' -d "$body" "http://$ADDR/bursar.v1.EngineService/Start" >"$WORK/said" || true
}
# ran ACCOUNT: the engine of the last answer ran as ACCOUNT.
ran() {
  local logs
  logs=$(grep -o '"logDirectory":"[^"]*"' "$WORK/said" | cut -d'"' -f4)
  [[ -n $logs ]] || { fault "as $1: $(cat "$WORK/said")"; return; }
  within 10 grep -qx "$1" "$logs/stdout" || fault "as $1: it ran as $(cat "$logs/stdout")"
}
refused() { grep -q "\"code\":\"permission_denied\"" "$WORK/said" || fault "$1: $(cat "$WORK/said")"; }
dev() { # NAME COMMAND...
  local name=$1
  shift
  # shellcheck disable=SC2016
  start "$name" "$@" bash -c 'echo $$ >"$0"; exec "$@"' "$WORK/tmp/$name.pid" \
    "$BURSAR" dev --listen "$ADDR" --data-dir "$WORK/tmp/$name" --agent-socket "$WORK/tmp/$name.sock"
  DEV=$WORK/tmp/$name.pid
  within 30 grep -q 'in another terminal' "$WORK/$name.log" || fault "$name: $(cat "$WORK/$name.log")"
}
stop() { kill "$(cat "$DEV")"; ended "$LAST"; }

say 'alice runs dev: engines of hers as alice, nobody else'
dev alice as alice
grep -q 'launches .*as alice' "$WORK/alice.log" || fault "dev does not say as whom: $(cat "$WORK/alice.log")"
begin alice alice one; ran alice
begin bob bob two; refused 'bob as bob'
begin bob alice three; refused 'bob as alice'
begin alice root four; grep -q invalid_argument "$WORK/said" || fault "alice as root: $(cat "$WORK/said")"
stop

say 'root runs dev: nothing as root, and dev says so'
dev root env -u SUDO_USER
grep -q 'launches .*none.*engines.remote.accounts' "$WORK/root.log" || fault "dev does not say that there is none: $(cat "$WORK/root.log")"
begin root root five; grep -q invalid_argument "$WORK/said" || fault "root as root: $(cat "$WORK/said")"
begin root alice six; refused 'root as alice'
stop

say 'alice runs dev with sudo: as alice, for her and for root'
dev sudo env SUDO_USER=alice
begin alice alice seven; ran alice
begin root alice eight; ran alice
begin bob alice nine; refused 'bob as alice'
begin bob bob ten; refused 'bob as bob'
stop
