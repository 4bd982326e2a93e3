#!/usr/bin/env bash
# case: under faults a grant is doubled or lost, or a limit is passed
# limit: 1500
# Three Consul servers, PostgreSQL, three coordinators and three agents, each coordinator behind
# proxies; a client checks each answer (checker/). One fault follows the other; after each there
# must be a leader. ROUNDS has names of faults; without it all run once.
. "$CASES/lib.sh"
go build -C "$CASES/ha/checker" -buildvcs=false -o "$WORK/checker" .

consul_http() { echo $((PORT + 10 + 3 * $1)); }
consul_up() {
  start "consul$1" "$CONSUL" agent -config-file "$WORK/consul$1.json"
  eval "consul$1=$LAST"
}
coordinator_up() {
  start "c$1-$SECONDS" "$BURSAR" coordinator --config "$WORK/c$1.yaml" --log-format text
  eval "c$1=$LAST"
}
pid() { echo "${!1}"; }
ends() { kill "-$1" "$2" 2>/dev/null && ended "$2"; }
lead() { # prints which coordinator leads
  local i
  for i in 0 1 2; do
    ! curl -s -m 2 "http://127.0.0.1:$((PORT + 30 + i))/metrics" | grep >/dev/null '^bursar_leading 1' || { echo "$i"; return; }
  done
  return 1
}
consul_lead() { # prints which Consul server leads
  local i at
  for i in 0 1 2; do
    at=$(curl -s -m 2 "http://127.0.0.1:$(consul_http "$i")/v1/status/leader" | tr -d '"') || continue
    [[ $at == *:* ]] && { echo $(((${at##*:} - PORT - 11) / 3)); return; }
  done
  return 1
}
mode() { echo "$2" >"$WORK/$1"; }
proxy() { # NAME LISTEN TARGET
  : >"$WORK/$1"
  start "proxy-$1" python3 "$CASES/ha/proxy.py" "$2" "$3" "$WORK/$1"
}

postgres 'max_connections = 60'
for i in 0 1 2; do
  http=$(consul_http "$i")
  joins="\"127.0.0.1:$((PORT + 12))\", \"127.0.0.1:$((PORT + 15))\", \"127.0.0.1:$((PORT + 18))\""
  mkdir "$WORK/consul$i"
  cat >"$WORK/consul$i.json" <<JSON
{"server": true, "bootstrap_expect": 3, "node_name": "n$i", "data_dir": "$WORK/consul$i",
 "bind_addr": "127.0.0.1", "client_addr": "127.0.0.1", "retry_join": [$joins], "retry_interval": "300ms",
 "ports": {"http": $http, "https": -1, "dns": -1, "grpc": -1, "grpc_tls": -1,
           "server": $((http + 1)), "serf_lan": $((http + 2)), "serf_wan": -1},
 "connect": {"enabled": false}, "disable_update_check": true, "log_level": "warn",
 "leave_on_terminate": false, "skip_leave_on_interrupt": true, "performance": {"raft_multiplier": 1}}
JSON
  consul_up "$i"
done
within 60 consul_lead
for i in 0 1 2; do
  proxy "front$i" $((PORT + 40 + i)) $((PORT + 30 + i))
  proxy "consul$i.mode" $((PORT + 50 + i)) "$(consul_http "$i")"
  proxy "database$i" $((PORT + 60 + i)) "$PGPORT"
  password one $((PORT + 60 + i))
  mv "$WORK/store" "$WORK/store$i"
  printf 'listen: 127.0.0.1:%s\nadvertise: http://127.0.0.1:%s\nstoreFile: %s\ndataDir: %s\nconsul: {address: "127.0.0.1:%s"}\n' \
    $((PORT + 30 + i)) $((PORT + 40 + i)) "$WORK/store$i" "$WORK/data$i" $((PORT + 50 + i)) >"$WORK/c$i.yaml"
  coordinator_up "$i"
done
within 60 lead
addresses=http://127.0.0.1:$((PORT + 40)),http://127.0.0.1:$((PORT + 41)),http://127.0.0.1:$((PORT + 42))
export BURSAR_ADDR=$addresses
for i in 0 1 2; do
  printf 'hostId: h%s\nsocket: %s/h%s.sock\nstateDir: %s/state%s\ntick: 1s\ncapacity: {memory: 1GiB, cpu: "64"}\nengines: {cgroups: none, logDir: %s/logs%s}\nconsul: {address: "127.0.0.1:%s"}\n' \
    "$i" "$WORK" "$i" "$WORK" "$i" "$WORK" "$i" "$(consul_http "$i")" >"$WORK/a$i.yaml"
  start "a$i" "$BURSAR" agent --config "$WORK/a$i.yaml" --log-format text
  eval "a$i=$LAST"
done
for i in 0 1 2; do within 40 takes "h$i"; done
start checker "$WORK/checker" -addresses "$addresses" -grants "$WORK/grants"
checker=$LAST

# The faults. l is the leader, s a standby. Each lasts as long as it sleeps.
kill_leader() { ends KILL "$(pid "c$l")"; sleep 4; coordinator_up "$l"; }
kill_standby() { ends KILL "$(pid "c$s")"; sleep 3; coordinator_up "$s"; }
kill_all() { for i in 0 1 2; do ends KILL "$(pid "c$i")"; done; sleep 1; for i in 0 1 2; do coordinator_up "$i"; done; }
end_leader() { ends TERM "$(pid "c$l")"; sleep 2; coordinator_up "$l"; }
pause_leader() { kill -STOP "$(pid "c$l")"; sleep 8; kill -CONT "$(pid "c$l")"; }
pause_leader_shortly() { kill -STOP "$(pid "c$l")"; sleep 1.5; kill -CONT "$(pid "c$l")"; }
pause_standby() { kill -STOP "$(pid "c$s")"; sleep 7; kill -CONT "$(pid "c$s")"; }
freeze_consul() { mode "consul$l.mode" freeze; sleep 8; mode "consul$l.mode" ''; }
cut_consul() { mode "consul$l.mode" cut; sleep 8; mode "consul$l.mode" ''; }
freeze_database() { mode "database$l" freeze; sleep 8; mode "database$l" ''; }
cut_database() { mode "database$l" cut; sleep 6; mode "database$l" ''; }
cut_all_databases() { for i in 0 1 2; do mode "database$i" cut; done; sleep 6; for i in 0 1 2; do mode "database$i" ''; done; }
freeze_front() { mode "front$l" freeze; sleep 8; mode "front$l" ''; }
pause_consul_leader() { local n; n=$(consul_lead); kill -STOP "$(pid "consul$n")"; sleep 10; kill -CONT "$(pid "consul$n")"; sleep 4; }
kill_consul_leader() { local n; n=$(consul_lead); ends KILL "$(pid "consul$n")"; sleep 8; consul_up "$n"; sleep 4; }
pause_all_consuls() { for i in 0 1 2; do kill -STOP "$(pid "consul$i")"; done; sleep 8; for i in 0 1 2; do kill -CONT "$(pid "consul$i")"; done; }
delete_key() { curl -s -o "$WORK/out" -X DELETE "http://127.0.0.1:$(consul_http 0)/v1/kv/bursar/bursar/leader"; sleep 3; }
restart_database() { postgres_down; sleep 1; postgres_up; }
crash_database() { postgres_down immediate; sleep 1; postgres_up; }
end_connections() {
  for _ in $(seq 30); do
    sql -c "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE datname = 'bursar' AND pid <> pg_backend_pid()" >"$WORK/out"
    sleep 0.1
  done
}
read_only() {
  sql -c 'ALTER DATABASE bursar SET default_transaction_read_only = on'
  end_connections
  sleep 3
  sql -c 'ALTER DATABASE bursar RESET default_transaction_read_only'
}
pause_agents() { for i in 0 1 2; do kill -STOP "$(pid "a$i")"; done; sleep 6; for i in 0 1 2; do kill -CONT "$(pid "a$i")"; done; }
pause_leader_without_standby() { mode "database$s" freeze; kill -STOP "$(pid "c$l")"; sleep 6; mode "database$s" ''; ends KILL "$(pid "c$l")"; coordinator_up "$l"; }

all=(kill_leader freeze_database pause_leader restart_database kill_consul_leader cut_consul crash_database
  end_connections pause_agents freeze_front kill_all pause_leader_shortly end_leader pause_consul_leader
  cut_database delete_key pause_standby read_only freeze_consul cut_all_databases kill_standby
  pause_all_consuls pause_leader_without_standby)
read -ra rounds <<<"${ROUNDS:-${all[*]}}"
grants() { local before; before=$(wc -l <"$WORK/grants"); sleep 0.5; (($(wc -l <"$WORK/grants") > before)); }
for round in "${rounds[@]}"; do
  l=$(lead) || { within 60 lead; l=$(lead); }
  s=$(((l + 1) % 3))
  say "$round (c$l leads)"
  "$round" || true
  within 60 lead || fault "$round: nobody leads 60 s after it"
  within 60 grants || fault "$round: nothing is granted 60 s after it"
  for i in 0 1 2; do
    runs "$(pid "c$i")" || { fault "$round: c$i ended: $(tail -qn 1 "$WORK/c$i-"*.log | tail -n 1 | cut -c 1-200)"; coordinator_up "$i"; }
  done
  runs "$checker" || { fault "$round: the checker ended"; break; }
done
say 'the books'
kill -TERM "$checker"
ended "$checker"
((CODE == 0)) || fault "the checker found problems: $(grep -m 1 PROBLEM "$WORK/checker.log" || tail -n 1 "$WORK/checker.log")"
tail -n 30 "$WORK/checker.log" | cut -c 1-400
