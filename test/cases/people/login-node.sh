#!/usr/bin/env bash
# case: a user on a login node can start nothing, and neither follow nor wait for an engine
# limit: 90
. "$CASES/lib.sh"
attacked "engines: {cgroups: none, logDir: $WORK/logs, remote: {accounts: [alice]}}"$'\n'"labels: {zone: a, cores: '16'}"
may_launch alice alice
# at COMMAND...: bursar of alice on a machine that is no host: it has no agent's socket.
at() {
  timeout 60 setpriv --reuid alice --regid alice --clear-groups env -i PATH=/usr/bin:/bin LANG=C.UTF-8 HOME="$WORK/home/alice" \
    BURSAR_ADDR="$BURSAR_ADDR" BURSAR_TOKEN_FILE="$TOK/alice" ${EXTRA:-} "$BURSAR" "$@"
}
# code WANT COMMAND...: of alice, with what it prints in $WORK/out and $WORK/err.
code() {
  local want=$1 got=0
  shift
  at "$@" >"$WORK/out" 2>"$WORK/err" </dev/null || got=$?
  [[ $got == "$want" ]] || fault "$* ends with $got, want $want: $(tail -n 5 "$WORK/out" "$WORK/err")"
}
small=(-m 8MiB -c 10m -l user=alice)

say 'run --remote: output, code, environment, no input'
head -c 3000000 /dev/urandom >"$WORK/random"
chmod 644 "$WORK/random"
code 7 run --remote "${small[@]}" --env COLOR='dark red' -o "$WORK/tmp/copy" -- sh -c "cat $WORK/random; read x || echo \"\$COLOR \$BURSAR_LABEL_user \$(id -u)\" >&2; exit 7"
cmp "$WORK/out" "$WORK/random" || fault 'the output differs'
cmp "$WORK/tmp/copy" "$WORK/random" || fault 'the copy differs'
[[ $(cat "$WORK/err") == "dark red alice $(id -u alice)" ]] || fault "it says: $(cat "$WORK/err")"

say 'a script and a secret'
printf '#!/bin/sh\necho "$1 $KEY"\n' >"$WORK/tmp/script"
EXTRA='KEY=hunter2' code 0 run --remote "${small[@]}" --secret KEY --script "$WORK/tmp/script" -- argument
[[ $(cat "$WORK/out") == 'argument hunter2' ]] || fault "the script says: $(cat "$WORK/out")"
! grep -rqs hunter2 "$WORK/c" "$WORK/coordinator.log" "$WORK/agent.log" || fault 'the secret is stored'

say 'submit, follow, wait, find out why'
code 0 submit "${small[@]}" --name failing -- sh -c 'echo out; echo why >&2; exit 4'
id=$(cat "$WORK/out")
[[ $id =~ ^[0-9a-z]{13}$ && ! -s $WORK/err ]] || fault "submit prints: $id $(cat "$WORK/err")"
code 4 wait "$id"
code 0 logs "$id"
[[ $(cat "$WORK/out") == out ]] || fault "logs prints: $(cat "$WORK/out")"
code 0 logs --stderr "$id"
[[ $(cat "$WORK/out") == why ]] || fault "logs --stderr prints: $(cat "$WORK/out")"
code 0 allocations "$id"
for fact in 'name .*failing' 'exit .*code 4' 'error output .*why' 'program .*sh as alice' "output .*bursar logs $id"; do
  grep -q "^$fact" "$WORK/out" || fault "allocations ID lacks $fact: $(cat "$WORK/out")"
done
code 0 allocations --ended --name failing
grep -q "^$id" "$WORK/out" || fault "allocations --name: $(cat "$WORK/out")"
code 64 submit -m 900XB -l user=alice -- true

say 'hosts by conditions'
code 0 run --remote "${small[@]}" --require 'zone in (a, b),cores>8,!old' --avoid 'zone in (c)' -- true
for where in 'zone in (b, c)' 'cores<16' '!zone' 'zone!=a'; do code 75 run --remote "${small[@]}" --require "$where" -- true; done
code 75 run --remote "${small[@]}" --avoid 'zone=a' -- true
code 64 run --remote "${small[@]}" --require 'zone within (a)' -- true

say 'ready, and 20 at once'
code 0 submit "${small[@]}" --ready-line '^up$' -- sh -c 'sleep 1; echo up; trap "exit 9" USR1; while :; do sleep 0.1; done'
id=$(cat "$WORK/out")
code 0 wait --for ready "$id" --timeout 20s
code 0 allocations --phase ready
grep -q "^$id" "$WORK/out" || fault "allocations --phase: $(cat "$WORK/out")"
code 0 signal "$id" --signal USR1
code 9 wait "$id" --timeout 20s
ids=()
for n in $(seq 20); do
  code 0 submit -m 1MiB -c 1m -l user=alice --name sweep -- sh -c "sleep 0.$n; exit $((n == 13 ? 3 : 0))"
  ids+=("$(cat "$WORK/out")")
done
code 3 wait "${ids[@]}" --timeout 50s
code 124 wait "$(at submit "${small[@]}" -- sleep 100)" --timeout 1s
