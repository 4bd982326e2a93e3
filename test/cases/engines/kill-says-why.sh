#!/usr/bin/env bash
# case: bursar run ends with 137 or 143 and does not say why, although Bursar knows
# limit: 90
. "$CASES/lib.sh"
coordinator
agent h1 "engines: {cgroups: direct, cgroup: $CGROUP, logDir: $WORK/logs, policies: [{match: {p: limit}, onOverUse: limit, tolerance: 0%}, {match: {p: kill}, onOverUse: kill, grace: 1s, stopGrace: 1s}]}"
grow='import time; b = bytearray(150 << 20); b[::4096] = b"x" * len(b[::4096]); time.sleep(30)'

# ends CODE PATTERN... -- FLAG... -- COMMAND...: run ends with the code and says each of these.
ends() {
  local code=$1 patterns=() got=0
  shift
  while [[ $1 != -- ]]; do patterns+=("$1"); shift; done
  shift
  b run -m 64MiB -l user=root "$@" >/dev/null 2>"$WORK/said" || got=$?
  sed 's/^/   /' "$WORK/said"
  [[ $got == "$code" ]] || fault "run ended with $got, and not with $code"
  for pattern in "${patterns[@]}"; do
    grep -qE "$pattern" "$WORK/said" || fault "run does not say: $pattern"
  done
}
ask='used [0-9.]+MiB at most; ask for --memory [0-9]+MiB next time \(.*rounded up'

say 'killed at the limit of its cgroup'
ends 137 'killed for lack of memory: its cgroup.s limit of 64MiB' "entitled to 64MiB of memory and $ask" -- -l p=limit -- python3 -c "$grow"
say 'a process of it was killed'
ends 5 'code 5, after the kernel had killed 1 of its processes for lack of memory' "$ask" -- -l p=limit -- sh -c "python3 -c '$grow'; exit 5"
say 'stopped by the policy'
ends 143 'stopped: uses .* \(policy kill\)' "$ask" -- -l p=kill -- python3 -c "$grow"
say 'stopped by an operator'
stop_it() { id=$(b allocations -l p=stop -o json | sed -nE 's/.*"id": "([^"]+)".*/\1/p') && [[ -n $id ]] && b stop "$id" --reason 'maintenance of racks'; }
(eventually stop_it) &
ends 143 'stopped: maintenance of racks' -- -l p=stop -- sleep 30
say 'its own end says nothing'
ends 137 -- -l p=none -- sh -c 'kill -KILL $$'
! grep -q . "$WORK/said" || fault 'run says something about a command that has killed itself'

say 'in the background, allocations says it'
id=$(b run --detach -m 64MiB -l user=root -l p=limit -- python3 -c "$grow" 2>/dev/null)
has_ended() { b allocations "$id" | grep -E '^state +released'; }
eventually has_ended
b allocations "$id" | tee "$WORK/shown" | sed 's/^/   /'
grep -qE '^incident +the kernel killed 1 process for lack of memory at the limit of 64MiB' "$WORK/shown" || fault 'the kill is no incident'
grep -qE '^next time +--memory 128MiB' "$WORK/shown" || fault 'it does not say what to ask for'
