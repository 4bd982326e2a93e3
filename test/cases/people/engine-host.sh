#!/usr/bin/env bash
# case: a user on an engine host cannot stop the engine that they started: it asks a coordinator that is not there
# limit: 60
. "$CASES/lib.sh"
attacked
unset BURSAR_ADDR BURSAR_AGENT BURSAR_TOKEN_FILE
mount -t tmpfs none /run
mkdir /run/bursar
ln -s "$SOCK" /run/bursar/agent.sock
# on USER COMMAND...: bursar on the engine host, with nothing in the environment.
on() {
  local user=$1
  shift
  timeout 30 setpriv --reuid "$user" --regid "$user" --clear-groups env -i PATH=/usr/bin:/bin LANG=C.UTF-8 \
    HOME="$WORK/home/$user" USER="$user" ${EXTRA:-} "$BURSAR" "$@"
}
asked() { grep -q "^bursar: asking this host's agent at /run/bursar/agent.sock" "$WORK/said" || fault "$1 does not say whom it asks: $(cat "$WORK/said")"; }
first=$(on alice run --detach -m 8MiB --workdir / -- sleep 1000)
second=$(on alice run --detach -m 8MiB --workdir / -- sleep 1000)
bobs=$(on bob run --detach -m 8MiB --workdir / -- sleep 1000)

say 'allocations, explain and stop ask the agent, and say so'
on alice allocations >"$WORK/list" 2>"$WORK/said" || fault "allocations: $(cat "$WORK/said")"
asked allocations
for id in "$first" "$second" "$bobs"; do grep -q "^$id" "$WORK/list" || fault "$id is not listed: $(cat "$WORK/list")"; done
on alice allocations --mine >"$WORK/list" 2>"$WORK/said" || fault "--mine: $(cat "$WORK/said")"
grep -q "^$first" "$WORK/list" && ! grep -q "^$bobs" "$WORK/list" || fault "mine are: $(cat "$WORK/list")"
on alice allocations "${first:0:6}" >"$WORK/list" 2>"$WORK/said" && grep -q active "$WORK/list" || fault "allocations ID: $(cat "$WORK/said" "$WORK/list")"
on alice explain "$first" >"$WORK/list" 2>"$WORK/said" || fault "explain ID: $(cat "$WORK/said")"
asked explain
on alice explain -m 1MiB >"$WORK/list" 2>"$WORK/said" && grep -q h1 "$WORK/list" || fault "explain: $(cat "$WORK/said" "$WORK/list")"
CODE=0
on bob stop "$first" >"$WORK/said" 2>&1 || CODE=$?
[[ $CODE == 77 ]] || fault "bob stops alice's engine: $CODE: $(cat "$WORK/said")"
on alice stop "$first" --wait 20s >"$WORK/list" 2>"$WORK/said" || fault "stop: $(cat "$WORK/said")"
asked stop
on alice stop --mine --yes --wait 20s >"$WORK/list" 2>"$WORK/said" || fault "stop --mine: $(cat "$WORK/said")"
grep -q "^$second" "$WORK/list" && ! grep -q "$bobs" "$WORK/list" || fault "stop --mine: $(cat "$WORK/list")"

say 'what is not on this host is not found, with what to do'
EXTRA="BURSAR_ADDR=http://$ADDR BURSAR_TOKEN_FILE=$TOK/alice"
waits=$(on alice allocate --async --wait 10m -m 900GiB 2>"$WORK/said" | cut -d ' ' -f 1) || true
[[ -n $waits ]] || waits=$(on alice allocate --async -m 1MiB | cut -d ' ' -f 1)
EXTRA=
CODE=0
on alice allocations "$waits" >"$WORK/said" 2>&1 || CODE=$?
((CODE != 0)) && grep -q 'BURSAR_ADDR' "$WORK/said" || fault "of no host: $CODE: $(cat "$WORK/said")"

say 'named servers are asked without a word'
EXTRA="BURSAR_ADDR=http://$ADDR BURSAR_TOKEN_FILE=$TOK/alice"
on alice allocations "$waits" >"$WORK/list" 2>"$WORK/said" || fault "with BURSAR_ADDR: $(cat "$WORK/said")"
[[ ! -s $WORK/said ]] || fault "it says: $(cat "$WORK/said")"
on alice allocations --mine >"$WORK/list" 2>&1 || fault "--mine with a token: $(cat "$WORK/list")"
! grep -q "^$bobs" "$WORK/list" || fault "mine with a token are: $(cat "$WORK/list")"
EXTRA="BURSAR_AGENT=$SOCK"
on alice allocations >"$WORK/list" 2>"$WORK/said" || fault "with BURSAR_AGENT: $(cat "$WORK/said")"
[[ ! -s $WORK/said ]] || fault "it says: $(cat "$WORK/said")"
EXTRA=

say 'signals and waits'
call() { # USER METHOD JSON
  setpriv --reuid "$1" --regid "$1" --clear-groups curl -s -m 20 --unix-socket "$SOCK" -H 'Content-Type: application/json' "http://agent/bursar.v1.EngineService/$2" -d "$3"
}
third=$(on alice run --detach -m 8MiB --workdir / --log-dir "$WORK/home/alice" -- bash -c 'trap "echo got it; exit 7" USR1; echo on; while :; do sleep 0.1; done')
eventually grep -q on "$WORK/home/alice/stdout"
[[ $(call bob Signal "{\"id\": \"$third\", \"signal\": \"SIGNAL_USR1\"}") == *permission_denied* ]] || fault 'bob signals an engine of alice'
call alice Wait "{\"id\": \"$third\"}" >"$WORK/waited" &
WAITS=$!
[[ $(call alice Signal "{\"id\": \"$third\", \"signal\": \"SIGNAL_USR1\"}") == '{}' ]] || fault 'alice cannot signal her engine'
ended $WAITS
grep -q '"code":7' "$WORK/waited" || fault "waited for: $(cat "$WORK/waited")"
grep -q 'got it' "$WORK/home/alice/stdout" || fault 'the signal has not arrived'

say 'wait, signal and logs on the command line'
fourth=$(on alice run --detach -m 8MiB --workdir / -- bash -c 'trap "echo got it; exit 7" USR1; echo on; while :; do sleep 0.1; done' 2>/dev/null)
has_begun() { on alice logs "$fourth" >"$WORK/list" 2>/dev/null && grep -q on "$WORK/list"; }
eventually has_begun || fault "logs: $(on alice logs "$fourth" 2>&1)"
CODE=0
on bob signal "$fourth" --signal USR1 >"$WORK/said" 2>&1 || CODE=$?
[[ $CODE == 77 ]] || fault "bob signals an engine of alice: $CODE: $(cat "$WORK/said")"
on alice wait "$fourth" >"$WORK/waited" 2>&1 &
WAITS=$!
on alice signal "$fourth" --signal USR1 2>"$WORK/said" || fault "signal: $(cat "$WORK/said")"
asked signal
ended $WAITS
[[ $CODE == 7 ]] || fault "wait ended with $CODE: $(cat "$WORK/waited")"
