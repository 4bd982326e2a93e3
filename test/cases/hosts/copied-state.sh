#!/usr/bin/env bash
# case: an agent on a copy of the state directory, as in a cloned machine, takes its host's place
. "$CASES/lib.sh"
coordinator
agentyaml h1
start agent1 "$BURSAR" agent --config "$WORK/agent.yaml" --log-format text
AGENT=$LAST
eventually takes h1
kill "$AGENT"
ended "$AGENT"
cp -a "$WORK/state" "$WORK/copied"
[[ $(stat -c %a "$WORK/state/state.identity") == 600 ]] || fault 'others may read the identity token'

say 'the first one comes back, then the copy'
start agent2 "$BURSAR" agent --config "$WORK/agent.yaml" --log-format text
AGENT=$LAST
works() { timeout 5 "$BURSAR" run --memory 1MiB -l user=b -- true; }
within 20 works
start engine "$BURSAR" run --memory 8MiB -l user=a -- sleep 1000
active() { b allocations -l user=a | grep -q active; }
eventually active
sed "s#$WORK/state#$WORK/copied#; s#agent.sock#copy.sock#" "$WORK/agent.yaml" >"$WORK/copy.yaml"
start copy "$BURSAR" agent --config "$WORK/copy.yaml" --log-format text
refused() { grep -q 'copy of the state directory' "$WORK/copy.log"; }
within 15 refused || fault "the copy is not told that it is one: $(grep WARN "$WORK/copy.log" | head -n 2)"
runs "$AGENT" || fault 'the copy has taken the place of the host'
active || fault 'the copy has ended an engine of the host'
works || fault 'the host starts no engines any more'
b hosts h1 | grep -q 'copy of the state directory' || fault 'the host does not show that a copy calls for it'

say 'the first one is killed and comes back at once: it has the token'
kill -9 "$AGENT"
ended "$AGENT"
start agent3 "$BURSAR" agent --config "$WORK/agent.yaml" --log-format text
within 15 works || fault 'the host does not come back'
active || fault 'the engine was lost'
token=$(od -An -tx1 "$WORK/state/state.identity" | tr -d ' \n')
[[ ${#token} == 64 ]] || fault "the token has not 32 bytes: $token"
encoded=$(base64 -w0 "$WORK/state/state.identity")
if grep -rqF -e "$token" -e "${encoded%=}" "$WORK"/*.log; then fault 'a log has the token'; fi
