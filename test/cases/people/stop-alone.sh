#!/usr/bin/env bash
# case: a user cannot stop the own engine on its host while no coordinator answers
# limit: 90
. "$CASES/lib.sh"
attacked
# begins USER: an engine of that user; prints its id.
begins() { as "$1" "$BURSAR" run --detach --memory 8MiB -l "user=$1" -- sleep 1000; }
alices=$(begins alice) bobs=$(begins bob)
pids() { pgrep -u "$1" -x sleep; }
within 10 pids alice >/dev/null || fault 'no engine of alice'
kill -9 "$COORDINATOR"

say 'others stop nothing'
if as mallory env -u BURSAR_ADDR "$BURSAR" stop "$alices" >"$WORK/said" 2>&1; then fault "mallory: $(cat "$WORK/said")"; fi
pids alice >/dev/null || fault 'the engine of alice was ended'

say 'alice stops hers, and nothing else ends'
as alice env -u BURSAR_ADDR "$BURSAR" stop "${alices:0:8}" --reason enough >"$WORK/said" 2>&1 || fault "stop: $(cat "$WORK/said")"
within 10 bash -c '! pgrep -u alice -x sleep' || fault 'the engine of alice runs'
pids bob >/dev/null || fault 'the engine of bob was ended'
grep -q 'audit=true order=stop.*stopped by alice@h1' "$WORK/agent.log" || fault 'no audit record'

say 'the coordinator hears of the end, and why'
coordinator "identities: $WORK/identities.yaml"
within 30 bash -c "'$BURSAR' allocations '$alices' --addr http://127.0.0.1:$PORT | grep -q 'enough (stopped by alice@h1'" ||
  fault "$("$BURSAR" allocations "$alices" --addr "http://127.0.0.1:$PORT")"
