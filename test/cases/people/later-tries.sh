#!/usr/bin/env bash
# case: the id that submit printed names and stops nothing once the engine is tried again; other ends of a command on another host
# limit: 80
. "$CASES/lib.sh"
attacked "engines: {cgroups: none, logDir: $WORK/logs, remote: {accounts: [alice]}}"
may_launch alice alice
# at COMMAND...: bursar of alice on a machine that is no host.
at() {
  timeout 40 setpriv --reuid alice --regid alice --clear-groups env -i PATH=/usr/bin:/bin LANG=C.UTF-8 HOME="$WORK/home/alice" \
    BURSAR_ADDR="$BURSAR_ADDR" BURSAR_TOKEN_FILE="$TOK/alice" "$BURSAR" "$@"
}
# code WANT COMMAND...: of alice, with what it prints in $WORK/out and $WORK/err.
code() {
  local want=$1 got=0
  shift
  at "$@" >"$WORK/out" 2>"$WORK/err" </dev/null || got=$?
  [[ $got == "$want" ]] || fault "$* ends with $got, want $want: $(tail -n 5 "$WORK/out" "$WORK/err")"
}
small=(-m 8MiB -c 10m -l user=alice)

say 'an engine that fails once'
script='echo $$ >>pids; if [ -e twice ]; then echo second; trap "echo got; exit 9" USR1; touch up; while :; do sleep 0.1; done; fi; touch twice; echo first; exit 5'
code 0 submit "${small[@]}" --dir "$WORK/tmp" --retries 1 --ready-file "$WORK/tmp/up" --ready-within 20s -- sh -c "$script"
first=$(cat "$WORK/out")
code 0 wait --for ready "$first" --timeout 30s
grep -q 'was tried again as .* on host h1' "$WORK/err" || fault "wait does not say which try is ready: $(cat "$WORK/err")"
last=$(at allocations -o json | python3 -c 'import json,sys; print(json.load(sys.stdin)["allocations"][0]["id"])')
[[ $first != "$last" ]] || fault 'it was not tried again'
for command in "allocations $first" "explain $first" "logs $first"; do
  code 0 $command
  grep -q "was tried again as $last on host h1" "$WORK/err" || fault "$command does not name the try that runs: $(cat "$WORK/out" "$WORK/err")"
done
[[ $(cat "$WORK/out") == second ]] || fault "logs prints $(cat "$WORK/out")"
code 0 logs --this-try "$first"
[[ $(cat "$WORK/out") == first ]] || fault "logs --this-try prints $(cat "$WORK/out")"
code 0 signal "$first" --signal USR1
grep -q "was tried again as $last" "$WORK/err" || fault "signal does not name the try that runs: $(cat "$WORK/err")"
code 9 wait "$first" --timeout 20s
code 1 stop "$first"
grep -q "$last is released" "$WORK/err" || fault "stop of an engine that has ended: $(cat "$WORK/err")"

say 'stop by the first id'
rm -f "$WORK/tmp/twice" "$WORK/tmp/up"
code 0 submit "${small[@]}" --dir "$WORK/tmp" --retries 1 --ready-file "$WORK/tmp/up" -- sh -c "$script"
first=$(cat "$WORK/out")
code 0 wait --for ready "$first" --timeout 30s
code 0 stop "$first" --wait 20s
[[ $(wc -l <"$WORK/tmp/pids") == 4 ]] || fault "tries: $(cat "$WORK/tmp/pids")"
for pid in $(cat "$WORK/tmp/pids"); do runs "$pid" && fault "process $pid runs after the stop"; done

say 'a program that is not there, or is none'
code 127 run --remote "${small[@]}" -- no-such-program
[[ $(grep -o 'no-such-program' "$WORK/err" | wc -l) == 1 ]] || fault "it is said twice: $(cat "$WORK/err")"
code 126 run --remote "${small[@]}" -- /etc/passwd
code 0 submit "${small[@]}" -- /no/such/program
code 127 wait "$(cat "$WORK/out")" --timeout 20s
code 0 submit "${small[@]}" -- /etc/passwd
code 126 wait "$(cat "$WORK/out")" --timeout 20s

say 'a command that leaves others behind'
at run --remote "${small[@]}" -- sh -c 'sleep 1000 >/dev/null 2>&1 & exit 3' >"$WORK/out" 2>"$WORK/left" </dev/null &
runs=$!
eventually grep -q 'the command has ended (code 3), but processes that it has started still run' "$WORK/left" ||
  fault "run --remote does not say that others go on: $(cat "$WORK/left")"
grep -q 'Ctrl-C twice within 5s stops the rest, and so does: bursar stop' "$WORK/left" || fault "nor how to stop them: $(cat "$WORK/left")"
at stop "$(sed -n 's/.*bursar stop //p' "$WORK/left" | head -n 1)" >"$WORK/out" 2>&1 || fault "stop: $(cat "$WORK/out")"
ended "$runs"
[[ $CODE == 3 ]] || fault "it ends with $CODE"
