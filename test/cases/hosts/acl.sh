#!/usr/bin/env bash
# case: a coordinator or an agent that starts while Consul answers 403 ends for good
# limit: 120
. "$CASES/lib.sh"
postgres
consul
: >"$WORK/mode"
start proxy python3 "$CASES/hosts/consulproxy.py" $((PORT + 9)) $((PORT + 10)) "$WORK/mode"
proxied="consul: {address: '127.0.0.1:$((PORT + 9))'}"
passes() { curl -sf -m 3 "http://127.0.0.1:$((PORT + 9))/v1/status/leader"; }
eventually passes

say 'a leader and a standby run'
member c1 "$PORT" "$proxied"
c1=$LAST
eventually is_ready "$PORT"
member c2 $((PORT + 2)) "$proxied"
c2=$LAST
eventually is_ready $((PORT + 2))
for mode in acl noleader; do
  echo "$mode" >"$WORK/mode"
  sleep 10 # as long as the fault lasts
  runs "$c1" || fault "the leader ended under $mode"
  runs "$c2" || fault "the standby ended under $mode"
  : >"$WORK/mode"
  one_is_ready() { is_ready "$PORT" || is_ready $((PORT + 2)); }
  within 15 one_is_ready || fault "nobody is ready 15 s after $mode"
done

say 'one is started'
echo acl >"$WORK/mode"
member c3 $((PORT + 4)) "$proxied"
c3=$LAST
agentyaml h1
sed -i '/^coordinators/d' "$WORK/agent.yaml"
echo "$proxied" >>"$WORK/agent.yaml"
start agent "$BURSAR" agent --config "$WORK/agent.yaml" --log-format text
agent=$LAST
sleep 5 # as long as the fault lasts
runs "$c3" || fault "a coordinator that is started under 403 ends: $(tail -n 1 "$WORK/c3.log" | cut -c 1-300)"
runs "$agent" || fault "an agent that is started under 403 ends: $(tail -n 1 "$WORK/agent.log" | cut -c 1-300)"
: >"$WORK/mode"
within 30 is_ready $((PORT + 4)) || fault 'the coordinator that was started under 403 is not ready 30 s after it'
export BURSAR_ADDR=http://127.0.0.1:$PORT,http://127.0.0.1:$((PORT + 2))
within 40 takes h1 || fault 'the agent that was started under 403 is not there 40 s after it'
