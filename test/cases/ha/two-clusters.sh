#!/usr/bin/env bash
# case: two clusters with names of their own on one Consul take each other's agents under the default consul.service
# limit: 180
. "$CASES/lib.sh"
postgres
consul
sql -c 'CREATE DATABASE second OWNER bursar'

member first "$PORT"
first=$LAST
eventually is_ready "$PORT"
agentyaml h1
sed -i '/^coordinators/d' "$WORK/agent.yaml"
echo "consul: {address: '$CONSUL_HTTP_ADDR'}" >>"$WORK/agent.yaml"
start agent "$BURSAR" agent --config "$WORK/agent.yaml" --log-format text
within 30 takes h1
b quota set user=alice --instances 1
b run --detach --memory 8MiB -l user=alice -- sleep 600 >/dev/null

# The second cluster has another name and another database.
second=http://127.0.0.1:$((PORT + 4))
sed 's,/bursar?,/second?,' "$WORK/store" >"$WORK/store-second"
cat >"$WORK/second.yaml" <<YAML
listen: 127.0.0.1:$((PORT + 4))
advertise: $second
storeFile: $WORK/store-second
dataDir: $WORK/second
cluster: second
consul: {address: '$CONSUL_HTTP_ADDR'}
YAML
(chmod 600 "$WORK/store-second")
start second "$BURSAR" coordinator --config "$WORK/second.yaml" --log-format text
settled() { is_ready $((PORT + 4)) || ! runs "$LAST" || grep -E 'WARN|ERROR' "$WORK/second.log"; }
within 30 settled || true
foreign() { BURSAR_ADDR=$second timeout 1 "$BURSAR" hosts 2>/dev/null | grep >/dev/null '^h1\|host h1'; }

for round in 1 2 3; do
  # The first cluster's only leader is killed; its agent looks for another one for 15 s.
  kill -KILL "$first"
  ended "$first"
  end=$((SECONDS + 15))
  while ((SECONDS < end)); do
    ! foreign || { fault "round $round: the agent of the first cluster serves the second"; break 2; }
    BURSAR_AGENT=$WORK/agent.sock timeout 1 "$BURSAR" run --detach --memory 8MiB -l user=alice -- sleep 600 >/dev/null 2>&1 &&
      { fault "round $round: alice was granted more than her quota of the first cluster"; break 2; }
    sleep 0.3
  done
  member first "$PORT"
  first=$LAST
  within 30 is_ready "$PORT"
  within 40 takes h1
done
tail -n 3 "$WORK/second.log" | cut -c 1-300
