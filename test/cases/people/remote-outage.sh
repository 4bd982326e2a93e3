#!/usr/bin/env bash
# case: a command on another host that a terminal follows is lost with its coordinator, and takes no signal
# limit: 90
. "$CASES/lib.sh"
attacked "engines: {cgroups: none, logDir: $WORK/logs, remote: {accounts: [alice]}}"
may_launch alice alice
run() {
  exec setpriv --reuid alice --regid alice --clear-groups env -i PATH=/usr/bin:/bin HOME="$WORK/home/alice" \
    BURSAR_ADDR="$BURSAR_ADDR" BURSAR_TOKEN_FILE="$TOK/alice" "$BURSAR" run --remote -m 8MiB -c 10m -l user=alice "$@"
}
lines() { [[ $(wc -l <"$1") -ge $2 ]]; }

say 'the coordinator is killed in the middle'
run -- sh -c 'for i in $(seq 200); do echo "$i"; echo "e$i" >&2; sleep 0.02; done; exit 3' >"$WORK/out" 2>"$WORK/err" </dev/null &
FOLLOWS=$!
eventually lines "$WORK/out" 50
kill -9 "$COORDINATOR"
ended "$COORDINATOR"
sleep 3
start coordinator "$BURSAR" coordinator --config "$WORK/coordinator.yaml" --log-format text
eventually is_ready "$PORT"
ended $FOLLOWS
[[ $CODE == 3 ]] || fault "it ends with $CODE: $(tail -n 3 "$WORK/err")"
cmp <(seq 200) "$WORK/out" || fault 'the output is not whole'
cmp <(seq -f e%g 200) <(grep -v '^bursar: ' "$WORK/err") || fault 'standard error is not whole'

say 'signals'
run -- sh -c 'for s in HUP QUIT USR1 USR2; do trap "echo $s" $s; done; trap "echo TERM; exit 9" TERM; echo on; while :; do sleep 0.05; done' >"$WORK/out" 2>"$WORK/err" </dev/null &
FOLLOWS=$!
eventually grep -q on "$WORK/out"
for s in HUP USR1 USR2 TERM; do
  kill -$s $FOLLOWS
  eventually grep -q $s "$WORK/out"
done
ended $FOLLOWS
[[ $CODE == 9 && $(tr '\n' ' ' <"$WORK/out") == 'on HUP USR1 USR2 TERM ' ]] || fault "signals: $CODE, $(cat "$WORK/out" "$WORK/err")"

say 'a reader of a pipe that goes away ends the command'
run -- sh -c 'echo first; while :; do echo more; sleep 0.1; done' 2>"$WORK/err" </dev/null | head -n 1 >"$WORK/out" || true
[[ $(cat "$WORK/out") == first ]] || fault "it prints $(cat "$WORK/out")"
none_active() { [[ $(b allocations -o json) != *'"id"'* ]]; }
within 20 none_active || fault "it runs on: $(b allocations)"
