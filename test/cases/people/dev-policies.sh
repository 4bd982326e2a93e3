#!/usr/bin/env bash
# case: bursar dev takes no policies and no trusted users, and so cannot show them
# limit: 60
. "$CASES/lib.sh"
cat >"$WORK/dev.yaml" <<Y
trustedUsers: [trusted]
engines:
  cgroups: direct
  cgroup: $CGROUP
  policies:
    - {match: {p: limit}, onOverUse: limit, tolerance: 0%}
Y
refused() { # WORDS SETTING
  echo "$2" >"$WORK/bad.yaml"
  local code=0
  timeout 20 "$BURSAR" dev --agent-config "$WORK/bad.yaml" --listen "$ADDR" --data-dir "$WORK/d" --agent-socket "$SOCK" >"$WORK/said" 2>&1 || code=$?
  [[ $code == 78 ]] || fault "$2: dev ended with $code"
  grep -q "bad.yaml:1.*$1" "$WORK/said" || fault "$2: $(head -n 1 "$WORK/said")"
}
say 'wrong settings are refused with their place'
refused 'onOverUse.*want observe, warn, limit or kill' 'engines: {policies: [{onOverUse: maim}]}'
refused 'trustedUser: unknown field' 'trustedUser: [trusted]'
refused 'coordinators.*dev runs its own' 'coordinators: [http://127.0.0.1:1]'
refused 'socket.*--agent-socket' 'socket: /elsewhere/agent.sock'

say 'a policy and a trusted user are in force'
start dev "$BURSAR" dev --agent-config "$WORK/dev.yaml" --listen "$ADDR" --data-dir "$WORK/d" --agent-socket "$SOCK"
eventually b allocations
has_host() { b hosts -o json | grep sampleTime; }
eventually has_host
code=0
b run -m 64MiB -l user=root -l p=limit -- python3 -c 'b = bytearray(150 << 20)' 2>"$WORK/said" || code=$?
[[ $code == 137 ]] || fault "under the policy limit it ended with $code"
as trusted "$BURSAR" run -m 8MiB -l user=alice -- true || fault 'the trusted user may not act as alice'
! as bob "$BURSAR" run -m 8MiB -l user=alice -- true 2>/dev/null || fault 'bob may act as alice'
