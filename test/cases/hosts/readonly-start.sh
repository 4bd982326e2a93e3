#!/usr/bin/env bash
# case: a coordinator that starts while its database cannot be used, for a time, ends for good
# limit: 180
. "$CASES/lib.sh"
postgres
read_only() { sql -c "ALTER SYSTEM SET default_transaction_read_only = $1" -c 'SELECT pg_reload_conf()' >/dev/null; }

# meets WHAT BREAK MEND: one that is started in between goes on, says that it is not ready, and is
# ready after.
meets() {
  say "$1"
  $2
  member "c-$3" "$PORT" 'election: alone'
  local coordinator=$LAST
  alive() { [[ $(curl -s -m 2 -o /dev/null -w '%{http_code}' "http://127.0.0.1:$PORT/healthz") == 200 ]]; }
  within 10 alive || fault "$1: /healthz is not served: $(tail -n 1 "$WORK/c-$3.log" | cut -c 1-300)"
  ! is_ready "$PORT" || fault "$1: it says that it is ready"
  if runs "$coordinator"; then
    sleep 3 # of the fault
    runs "$coordinator" || ended "$coordinator"
    runs "$coordinator" || fault "$1: it ended with $CODE: $(tail -n 1 "$WORK/c-$3.log" | cut -c 1-300)"
  fi
  $3
  ! runs "$coordinator" || within 30 is_ready "$PORT" || fault "$1: it is not ready 30 s after it"
  ! kill "$coordinator" 2>/dev/null || ended "$coordinator"
}

member first "$PORT" 'election: alone'
first=$LAST
eventually is_ready "$PORT"
kill "$first"
ended "$first"

break_readonly() { read_only on; }
mend_readonly() { read_only off; }
meets 'it takes no writes' break_readonly mend_readonly

break_hba() { cp "$DATABASE/pg_hba.conf" "$WORK/hba"; sed -i 's/^host.*127.0.0.1.*/host all all 127.0.0.1\/32 reject/' "$DATABASE/pg_hba.conf"; postgres_reload; }
mend_hba() { cat "$WORK/hba" >"$DATABASE/pg_hba.conf"; postgres_reload; }
meets 'its role may not log in yet' break_hba mend_hba

break_database() { sql -c 'ALTER DATABASE bursar RENAME TO other'; }
mend_database() { sql -c 'ALTER DATABASE other RENAME TO bursar'; }
meets 'the database is being restored' break_database mend_database

break_full() { sql -c 'ALTER ROLE bursar CONNECTION LIMIT 0'; }
mend_full() { sql -c 'ALTER ROLE bursar CONNECTION LIMIT -1'; }
meets 'there are no connections left' break_full mend_full

meets 'it is down' postgres_down postgres_up
