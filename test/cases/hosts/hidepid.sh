#!/usr/bin/env bash
# case: an agent that cannot see a process (hidepid) releases the running engine of another user
. "$CASES/lib.sh"
mkdir -p "$TOK"
b token create --identities "$WORK/identities.yaml" --out "$TOK/admin" --name admin --role admin >/dev/null
b token create --identities "$WORK/identities.yaml" --out "$TOK/agent1" --name agent1 --role agent --host h1 >/dev/null
chown trusted "$TOK/agent1"
export BURSAR_TOKEN_FILE=$TOK/admin
coordinator "identities: $WORK/identities.yaml"
mkdir -m 755 "$WORK/a"
chown trusted "$WORK/a"
printf 'hostId: h1\ntokenFile: %s\ncoordinators: [http://%s]\nsocket: %s/a/agent.sock\nstateDir: %s/a/state\ntick: 1s\nengines: {cgroups: none, logDir: %s/a/logs}\n' \
  "$TOK/agent1" "$ADDR" "$WORK" "$WORK" "$WORK" >"$WORK/agent.yaml"
export BURSAR_AGENT=$WORK/a/agent.sock
launch_agent() {
  start "agent$1" as trusted "$BURSAR" agent --config "$WORK/agent.yaml" --log-format text
}
launch_agent 1
eventually takes h1
agent=$LAST
start engine as bob env BURSAR_SERVER_USERS=trusted "$BURSAR" run --memory 8MiB -l user=bob -- sleep 1000
active() { b allocations -l user=bob | grep -q active; }
eventually active

say 'the process table is mounted again, with hidepid'
mount -o remount,hidepid=2 /proc
as trusted "$BURSAR" agent --config "$WORK/agent.yaml" --check >"$WORK/check" 2>&1
grep -q 'cannot see the processes of other users' "$WORK/check" || fault 'bursar agent --check does not say that the agent is blind'
sleep 6 # it was released within 4 s
active || fault "an agent that cannot see the engine has ended its allocation: $(b allocations --ended | tail -n 1)"

say 'the agent is started again'
b hosts | grep -q 'cannot see the processes of other users' || fault "the host of the agent that runs has no note: $(b hosts)"
pkill -x -u trusted bursar
ended "$agent"
launch_agent 2
sleep 6
active || fault "an agent that never saw the engine has ended its allocation: $(b allocations --ended | tail -n 1)"
grep -q 'cannot see the processes of other users' "$WORK/agent2.log" || fault 'the log does not say that the agent is blind'
b hosts | grep -q 'cannot see the processes of other users' || fault "the host has no note: $(b hosts)"

say 'the engine ends'
pkill -x -u bob sleep || true
gone() { ! active; }
within 10 gone || fault 'the end of an engine that cannot be seen is not noticed'
