#!/usr/bin/env bash
# case: a machine that gets another name becomes a second host, and its engines are lost
. "$CASES/lib.sh"
coordinator 'times: {lostAfter: 20s}'
agentyaml x
sed -i /^hostId/d "$WORK/agent.yaml"
hostname localhost
start agent1 "$BURSAR" agent --config "$WORK/agent.yaml" --log-format text
AGENT=$LAST
eventually takes localhost
start engine "$BURSAR" run --memory 100MiB -l user=a -- sleep 1000
active() { b allocations -l user=a | grep -q 'active.*localhost\|localhost.*active'; }
eventually active

say 'the name is node-17 now, and the agent is restarted'
kill "$AGENT"
ended "$AGENT"
hostname node-17
b agent --config "$WORK/agent.yaml" --check >"$WORK/check" 2>&1
grep -q 'named node-17 now; the host keeps its id, localhost' "$WORK/check" || fault "bursar agent --check does not say which id the host has: $(cat "$WORK/check")"
start agent2 "$BURSAR" agent --config "$WORK/agent.yaml" --log-format text
AGENT=$LAST
works() { timeout 5 "$BURSAR" run --memory 1MiB -l user=b -- true; }
within 20 works || fault 'the host starts no engines'
[[ $(b hosts -o json | grep -c '"sampleTime"') == 1 ]] || fault "the machine is counted twice: $(b hosts)"
noted() { b hosts localhost | grep -q 'named node-17 now'; }
within 15 noted || fault "the host has no note: $(b hosts localhost)"
grep -q 'WARN.*named node-17 now' "$WORK/agent2.log" || fault 'the log does not say which id the host has'
sleep 22 # lostAfter
active || fault "the engine was lost: $(b allocations --ended)"

say 'an id in the configuration wins'
pkill -x sleep || true
gone() { ! active; }
within 10 gone
kill "$AGENT"
ended "$AGENT"
echo 'hostId: node-17' >>"$WORK/agent.yaml"
start agent3 "$BURSAR" agent --config "$WORK/agent.yaml" --log-format text
eventually takes node-17 || fault 'the configured id does not win'
