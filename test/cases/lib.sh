# What the scripts of cases share: each begins with `. "$CASES/lib.sh"`. A script ends with 0 if the
# fault that it looks for is absent. fault says that it is there; so does any command that fails.
# A case runs in namespaces of its own: ports, mounts and processes of others are not there, and
# nothing has to be cleaned up.
set -euo pipefail
export PYTHONPATH=$CASES PYTHONDONTWRITEBYTECODE=1
export BURSAR_ADDR=http://127.0.0.1:$PORT BURSAR_AGENT=$WORK/agent.sock
export SOCK=$WORK/agent.sock ADDR=127.0.0.1:$PORT TOK=$WORK/tokens
LAST=
FAULTS=0

say() { printf '\n== %s\n' "$*"; }
fault() { printf 'FAULT: %s\n' "$*"; FAULTS=$((FAULTS + 1)); }
trap '((FAULTS == 0)) || exit 1' EXIT

# b COMMAND...: bursar as root.
b() { "$BURSAR" "$@"; }

# as USER COMMAND...: with no more than an ordinary user's environment.
as() {
  local user=$1
  shift
  setpriv --reuid "$user" --regid "$user" --clear-groups env -i PATH=/usr/bin:/bin LANG=C.UTF-8 \
    HOME="$WORK/home/$user" USER="$user" ME="$user" SOCK="$SOCK" ADDR="$ADDR" TOK="$TOK" WORK="$WORK" \
    CASES="$CASES" PYTHONPATH="$CASES" PYTHONDONTWRITEBYTECODE=1 BURSAR="$BURSAR" \
    BURSAR_ADDR="$BURSAR_ADDR" BURSAR_AGENT="$BURSAR_AGENT" "$@"
}

# start NAME COMMAND...: in the background, its output in $WORK/NAME.log, its pid in LAST.
start() {
  local name=$1
  shift
  "$@" >"$WORK/$name.log" 2>&1 &
  LAST=$!
}

# within SECONDS COMMAND...: the command until it succeeds; 1 if it does not in that time.
within() {
  local end=$((SECONDS + $1))
  shift
  until "$@" >/dev/null 2>&1; do
    ((SECONDS < end)) || { echo "not within its time: $*"; return 1; }
    sleep 0.1
  done
}
eventually() { within 15 "$@"; }

# runs PID: the process is there, and no zombie.
runs() { grep -qs '^State:[[:space:]]*[^Z]' "/proc/$1/status" && ! grep -qs '^State:[[:space:]]*Z' "/proc/$1/status"; }
# ended PID: waits for the end of a process of this shell, and sets CODE to its exit code.
ended() { CODE=0; wait "$1" 2>/dev/null || CODE=$?; }
# ready PORT: what /readyz answers, 000 if nobody does.
ready() { curl -s -m 3 -o /dev/null -w '%{http_code}' "http://127.0.0.1:$1/readyz" || true; }
is_ready() { [[ $(ready "$1") == 200 ]]; }

# coordinator [YAML]: one with an embedded store and no identities.
coordinator() {
  mkdir -p -m 0700 "$WORK/c"
  printf 'listen: 127.0.0.1:%s\ndataDir: %s/c\n%s\n' "$PORT" "$WORK" "${1:-}" >"$WORK/coordinator.yaml"
  start coordinator "$BURSAR" coordinator --config "$WORK/coordinator.yaml" --log-format text
  COORDINATOR=$LAST
  eventually is_ready "$PORT"
}

# agentyaml HOST [YAML] writes $WORK/agent.yaml; agent HOST [YAML] starts one with it.
agentyaml() {
  printf 'hostId: %s\ncoordinators: [http://127.0.0.1:%s]\nsocket: %s/agent.sock\nstateDir: %s/state\ntick: 1s\n%s\n' \
    "$1" "$PORT" "$WORK" "$WORK" "${2:-engines: {cgroups: none, logDir: $WORK/logs\}}" >"$WORK/agent.yaml"
}
agent() {
  agentyaml "$@"
  start agent "$BURSAR" agent --config "$WORK/agent.yaml" --log-format text
  AGENT=$LAST
  eventually takes "$1"
}
# takes HOST: it is there and its first measurement has arrived.
takes() { b hosts "$1" -o json | grep sampleTime; }

# attacked [AGENT-YAML] [COORDINATOR-YAML]: a coordinator with identities, and the agent of host h1.
# TOK is a folder with a token for each: mallory and alice (submitters of their own user), reader,
# admin, agent1 (h1), agent2 (a host without an agent, h2). mallory, alice and bob are ordinary users
# of the machine, trusted is one whom the agent lets act as anybody. The commands of b are admin's.
attacked() {
  local policies='policies: [{match: {p: kill}, onOverUse: kill, grace: 2s, stopGrace: 1s}]'
  local more=${1:-"engines: {cgroups: none, logDir: $WORK/logs, $policies}"}
  mkdir -p "$TOK"
  token() { b token create --identities "$WORK/identities.yaml" --out "$TOK/$1" --name "$@" >/dev/null; }
  token mallory --role submitter --user mallory
  token alice --role submitter --user alice
  token reader --role reader
  token admin --role admin
  token agent1 --role agent --host h1
  token agent2 --role agent --host h2
  chown mallory "$TOK/mallory"
  chown alice "$TOK/alice"
  chmod 755 "$TOK"
  export BURSAR_TOKEN_FILE=$TOK/admin
  coordinator "identities: $WORK/identities.yaml"$'\n'"${2:-}"
  agent h1 "tokenFile: $TOK/agent1"$'\n'"trustedUsers: [trusted]"$'\n'"$more"
}

# may_launch NAME ACCOUNT: the identity may have engines started as an account of the hosts, once the
# coordinator has read its file again: within a moment.
may_launch() {
  sed -i -E "s/^  - name: $1\$/&\n    mayLaunch: [$2]/" "$WORK/identities.yaml"
  grep -q mayLaunch "$WORK/identities.yaml"
  kill -HUP "$COORDINATOR"
}

# --- PostgreSQL, Consul, and coordinators that share them ----------------------------------------

PGPORT=$((PORT + 1))
DATABASE=$WORK/pg

# postgres [SETTING...]: a server with the database and the role bursar (password one), which
# $WORK/store names. Its superuser is postgres, on its Unix socket alone.
as_postgres() { setpriv --reuid postgres --regid postgres --clear-groups "$@"; }
postgres() {
  mkdir -p "$DATABASE"
  chmod 700 "$DATABASE"
  chown postgres "$DATABASE"
  as_postgres "$PGBIN/initdb" -D "$DATABASE" --auth-host=scram-sha-256 --auth-local=trust -U postgres \
    -E UTF8 --locale=C --no-sync >/dev/null
  {
    printf "port = %s\nlisten_addresses = '127.0.0.1'\nunix_socket_directories = '%s'\n" "$PGPORT" "$DATABASE"
    printf '%s\n' "$@"
  } >>"$DATABASE/postgresql.conf"
  postgres_up
  sql -c "CREATE ROLE bursar LOGIN PASSWORD 'one'" -c 'CREATE DATABASE bursar OWNER bursar'
  password one
}
postgres_up() { as_postgres "$PGBIN/pg_ctl" -D "$DATABASE" -l "$DATABASE/log" -w start >/dev/null; }
postgres_down() { as_postgres "$PGBIN/pg_ctl" -D "$DATABASE" -m "${1:-fast}" -w stop >/dev/null; }
postgres_reload() { as_postgres "$PGBIN/pg_ctl" -D "$DATABASE" reload >/dev/null; }
sql() { "$PGBIN/psql" -X -q -At -v ON_ERROR_STOP=1 -h "$DATABASE" -p "$PGPORT" -U postgres "$@"; }
# password WORD [PORT]: the file of the store's address gets it, in one step.
password() {
  (umask 077 && echo "postgres://bursar:$1@127.0.0.1:${2:-$PGPORT}/bursar?sslmode=disable" >"$WORK/store.new")
  mv "$WORK/store.new" "$WORK/store"
}

# consul [PORT]: a Consul server; the two ports after it are used too.
consul() {
  local port=${1:-$((PORT + 10))}
  mkdir -p "$WORK/consul"
  cat >"$WORK/consul.json" <<JSON
{"server": true, "bootstrap_expect": 1, "node_name": "n1", "data_dir": "$WORK/consul",
 "bind_addr": "127.0.0.1", "client_addr": "127.0.0.1",
 "ports": {"http": $port, "https": -1, "dns": -1, "grpc": -1, "grpc_tls": -1,
           "server": $((port + 1)), "serf_lan": $((port + 2)), "serf_wan": -1},
 "connect": {"enabled": false}, "disable_update_check": true, "log_level": "warn",
 "performance": {"raft_multiplier": 1}}
JSON
  start consul "$CONSUL" agent -config-file "$WORK/consul.json"
  CONSULPID=$LAST
  export CONSUL_HTTP_ADDR=127.0.0.1:$port
  consul_leads() { curl -sf "http://127.0.0.1:$port/v1/status/leader" | grep :; }
  within 30 consul_leads
}

# member NAME PORT [YAML]: starts a coordinator with the store of $WORK/store; without YAML it elects
# a leader through consul. It may not come up: the case waits for what it wants.
member() {
  printf 'listen: 127.0.0.1:%s\nadvertise: http://127.0.0.1:%s\nstoreFile: %s/store\ndataDir: %s/%s\n%s\n' \
    "$2" "$2" "$WORK" "$WORK" "$1" "${3:-consul: {address: '$CONSUL_HTTP_ADDR'\}}" >"$WORK/$1.yaml"
  start "$1" "$BURSAR" coordinator --config "$WORK/$1.yaml" --log-format text
}
