#!/usr/bin/env bash
# case: behind a pooler in transaction mode a coordinator serves, and commits what a crash of the database takes back
# limit: 120
. "$CASES/lib.sh"
postgres 'synchronous_commit = off' 'idle_session_timeout = 5s'
pooled=$((PORT + 5))
pgbouncer=$(command -v pgbouncer)
for mode in transaction session; do
  say "pool_mode = $mode"
  cat >"$WORK/pgbouncer.ini" <<INI
[databases]
bursar = host=127.0.0.1 port=$PGPORT dbname=bursar user=bursar password=one
[pgbouncer]
listen_addr = 127.0.0.1
listen_port = $pooled
auth_type = any
pool_mode = $mode
default_pool_size = 20
unix_socket_dir =
ignore_startup_parameters = extra_float_digits
INI
  start "pgbouncer-$mode" setpriv --reuid postgres --regid postgres --clear-groups "$pgbouncer" "$WORK/pgbouncer.ini"
  pooler=$LAST
  password one "$pooled"
  answers() { "$PGBIN/psql" -X -At -c 'SELECT 1' "$(cat "$WORK/store")"; }
  eventually answers
  member "c-$mode" "$PORT" 'election: alone'
  coordinator=$LAST
  if within 15 is_ready "$PORT"; then
    # It serves: then it must lose no leadership, and what it answered must be durable.
    for _ in $(seq 30); do b allocate --memory 1MiB -l user=a >"$WORK/out" 2>&1 || { head -n 2 "$WORK/out"; break; }; done
    lost=$(grep -c 'does not lead' "$WORK/c-$mode.log" || true)
    ((lost == 0)) || fault "$mode: $lost leaderships were lost"
  elif [[ $mode == session ]]; then
    fault "session: it does not serve: $(tail -n 1 "$WORK/c-$mode.log" | cut -c 1-300)"
  elif ! grep -qiE 'pool' "$WORK/c-$mode.log"; then
    fault "$mode: the error does not name the pooler: $(tail -n 1 "$WORK/c-$mode.log" | cut -c 1-300)"
  fi
  kill "$coordinator" 2>/dev/null || true
  ended "$coordinator"
  kill "$pooler"
  ended "$pooler"
done
