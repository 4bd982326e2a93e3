#!/usr/bin/env bash
# case: kills for memory in a living engine and over-uses that have passed leave no trace
# limit: 90
. "$CASES/lib.sh"
coordinator
agent h1 "engines: {cgroups: direct, cgroup: $CGROUP, logDir: $WORK/logs, policies: [{match: {p: limit}, onOverUse: limit, tolerance: 0%}]}"
incidents() { b allocations "$1" -o json | python3 -c 'import json, sys
for i in json.load(sys.stdin).get("incidents", []): print(i["kind"], i["dimension"], i["count"], i.get("ongoing", False))'; }
counts() { incidents "$1" | grep -x "$2"; }

say 'an over-use that passes'
id=$(b run --detach -m 64MiB -l user=root -- python3 -c 'import os, time
for n in (1, 2):
    b = bytearray(150 << 20); b[::4096] = b"x" * len(b[::4096]); time.sleep(4); del b; time.sleep(3)' 2>/dev/null)
eventually counts "$id" 'INCIDENT_KIND_OVER_USE memory 1 True' || fault 'the over-use is no incident'
eventually counts "$id" 'INCIDENT_KIND_OVER_USE memory 1 False' || fault 'the over-use that has passed is forgotten'
ended_now() { b allocations "$id" | grep -E '^state +released'; }
within 25 ended_now
counts "$id" 'INCIDENT_KIND_OVER_USE memory 2 False' || fault "after its end: $(incidents "$id")"

say 'children that are killed, over a restart of the agent'
cat >"$WORK/children.sh" <<'SH'
for n in 1 2 3; do
  until [ -e "$WORK/$n" ]; do sleep 0.05; done
  dd if=/dev/zero of=/dev/null bs=256M count=1 status=none
  : >"$WORK/done$n"
done
until [ -e "$WORK/end" ]; do sleep 0.05; done
SH
id=$(b run --detach -m 128MiB -l user=root -l p=limit --env "WORK=$WORK" -- sh "$WORK/children.sh" 2>/dev/null)
kill_one() { touch "$WORK/$1"; eventually test -e "$WORK/done$1"; }
kill_one 1
eventually counts "$id" 'INCIDENT_KIND_MEMORY_KILL memory 1 False' || fault 'the kill of a child is forgotten'
kill -KILL "$AGENT"
ended "$AGENT"
kill_one 2
start agent "$BURSAR" agent --config "$WORK/agent.yaml" --log-format text
AGENT=$LAST
eventually counts "$id" 'INCIDENT_KIND_MEMORY_KILL memory 2 False' || fault "after a restart: $(incidents "$id")"
kill_one 3
eventually counts "$id" 'INCIDENT_KIND_MEMORY_KILL memory 3 False' || fault "after a third: $(incidents "$id")"
touch "$WORK/end"
eventually ended_now
counts "$id" 'INCIDENT_KIND_MEMORY_KILL memory 3 False' || fault "after its end: $(incidents "$id")"
b allocations "$id" -o json | grep -q '"outOfMemory": true' || fault 'out_of_memory is false'

say 'a coordinator that is started again knows them'
kill -KILL "$COORDINATOR"
ended "$COORDINATOR"
start coordinator "$BURSAR" coordinator --config "$WORK/coordinator.yaml" --log-format text
eventually is_ready "$PORT"
counts "$id" 'INCIDENT_KIND_MEMORY_KILL memory 3 False' || fault "after the coordinator's restart: $(incidents "$id")"
