#!/usr/bin/env bash
# case: with an agent and a coordinator on one machine, a request that waits for any host is found nowhere
# limit: 60
. "$CASES/lib.sh"
unset BURSAR_ADDR BURSAR_AGENT
mount -t tmpfs none /run
start dev "$BURSAR" dev --data-dir "$WORK/d"
has_host() { b hosts -o json | grep sampleTime; }
eventually has_host
id=$(b allocate --async -m 1MiB -l user=root --custom gpu=1 --wait 10m | cut -d ' ' -f 1) || true
[[ -n $id ]] || id=$(b allocations --state waiting --addr 127.0.0.1:7070 -o json | grep -o '"id": *"[^"]*"' | head -n 1 | cut -d '"' -f 4)
say "commands about $id, and about what runs"
for command in "allocations $id" "explain $id" "allocations ${id:0:8}" "stop $id"; do
  # shellcheck disable=SC2086 # words
  b $command >"$WORK/out" 2>"$WORK/said" || fault "$command: $(cat "$WORK/said")"
  grep -q '^bursar: asking the coordinator at http://127.0.0.1:7070$' "$WORK/said" || fault "$command: $(cat "$WORK/said")"
  [[ $(wc -l <"$WORK/said") == 1 ]] || fault "$command says more than once whom it asks: $(cat "$WORK/said")"
done
runs=$(b run --detach -m 8MiB -l user=root --workdir / -- sleep 1000 2>/dev/null)
for command in allocations "allocations $runs" "stop $runs --wait 20s"; do
  # shellcheck disable=SC2086 # words
  b $command >"$WORK/out" 2>"$WORK/said" || fault "$command: $(cat "$WORK/said")"
  grep -q "^bursar: asking this host's agent at /run/bursar/agent.sock, about this host alone" "$WORK/said" || fault "$command: $(cat "$WORK/said")"
  grep -q "$runs" "$WORK/out" || fault "$command: $(cat "$WORK/out")"
done
b allocations "$runs" -o json 2>/dev/null | python3 -c 'import json, sys; json.load(sys.stdin)' || fault 'the output has more than JSON'
