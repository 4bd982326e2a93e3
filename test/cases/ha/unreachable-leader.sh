#!/usr/bin/env bash
# case: a leader that nobody but Consul and the database can reach leads for as long as that lasts
# limit: 180
. "$CASES/lib.sh"
postgres
consul
# Callers and the other coordinators reach each one through a proxy.
for i in 0 1 2; do
  : >"$WORK/mode$i"
  start "proxy$i" python3 "$CASES/ha/proxy.py" $((PORT + 30 + i)) $((PORT + 20 + i)) "$WORK/mode$i"
  printf 'listen: 127.0.0.1:%s\nadvertise: http://127.0.0.1:%s\nstoreFile: %s/store\ndataDir: %s/c%s\nconsul: {address: "%s"}\n' \
    $((PORT + 20 + i)) $((PORT + 30 + i)) "$WORK" "$WORK" "$i" "$CONSUL_HTTP_ADDR" >"$WORK/c$i.yaml"
  start "c$i" "$BURSAR" coordinator --config "$WORK/c$i.yaml" --log-format text
done
leader() {
  local i
  for i in 0 1 2; do
    ! curl -s -m 2 "http://127.0.0.1:$((PORT + 20 + i))/metrics" | grep >/dev/null '^bursar_leading 1' || { echo "$i"; return; }
  done
  return 1
}
for i in 0 1 2; do within 30 is_ready $((PORT + 20 + i)); done
old=$(leader)
echo "c$old leads"
agentyaml h1
sed -i '/^coordinators/d' "$WORK/agent.yaml"
echo "consul: {address: '$CONSUL_HTTP_ADDR'}" >>"$WORK/agent.yaml"
start agent "$BURSAR" agent --config "$WORK/agent.yaml" --log-format text
export BURSAR_ADDR=http://127.0.0.1:$((PORT + 30)),http://127.0.0.1:$((PORT + 31)),http://127.0.0.1:$((PORT + 32))
within 30 takes h1

echo freeze >"$WORK/mode$old"
another_leads() { local now; now=$(leader) && [[ $now != "$old" ]]; }
if within 60 another_leads; then
  grants() { timeout 10 "$BURSAR" allocate --memory 1MiB -l user=a; }
  within 30 grants || fault 'another one leads, and grants nothing'
else
  fault 'c'"$old"' still leads 60 s after nobody can reach it'
  for i in 0 1 2; do echo "c$i readyz: $(curl -s -m 3 "http://127.0.0.1:$((PORT + 20 + i))/readyz")"; done
fi
