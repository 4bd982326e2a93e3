#!/usr/bin/env bash
# case: a user cannot ask for a hard cap, and run --help does not say that memory is not capped
# limit: 90
. "$CASES/lib.sh"
coordinator
agent h1 "engines: {cgroups: direct, cgroup: $CGROUP, logDir: $WORK/logs, policies: [{match: {p: limit}, onOverUse: limit, tolerance: 100%}]}"
b run --help | tr '\n' ' ' | grep -q 'memory is booked and not capped' || fault 'run --help does not say that memory is not capped'
grow='b = bytearray(150 << 20); b[::4096] = b"x" * len(b[::4096]); print("all of it")'
run() { CODE=0; b run -m 64MiB -l user=root "$@" >"$WORK/out" 2>"$WORK/said" || CODE=$?; sed 's/^/   /' "$WORK/said"; }

say 'without it the command has more than it asked for'
run -- python3 -c "$grow"
[[ $CODE == 0 ]] || fault "without --limit it ended with $CODE"
for more in 'p=none' 'p=limit'; do
  say "with it, $more"
  run --limit -l $more -- python3 -c "$grow"
  [[ $CODE == 137 ]] || fault "with --limit it ended with $CODE"
  grep -q "its cgroup's limit of 64MiB" "$WORK/said" || fault 'run does not name the limit'
done
say 'with it, in the background'
id=$(b run --detach --limit -m 64MiB -l user=root -- python3 -c "$grow" 2>/dev/null) || fault 'not launched'
killed() { b allocations "$id" | grep -E "^reason +killed for lack of memory: its cgroup's limit of 64MiB"; }
eventually killed || fault 'in the background it was not capped'
say 'what it starts is capped with it'
run --limit -- sh -c "python3 -c '$grow' & wait; exit 4"
grep -q 'the kernel had killed 1 of its processes' "$WORK/said" || fault 'a child is not capped'

say 'a host that forbids cgroups refuses before anything runs'
kill "$AGENT"
ended "$AGENT"
agent h1 "engines: {cgroups: none, logDir: $WORK/logs}"
for how in '' --detach; do
  run --limit $how -- touch "$WORK/ran"
  [[ $CODE != 0 ]] || fault "not refused ($how)"
  grep -q 'engines.cgroups: "none"' "$WORK/said" || fault "the refusal does not name the setting ($how)"
  [[ ! -e $WORK/ran ]] || fault "the command ran without its limit ($how)"
done
