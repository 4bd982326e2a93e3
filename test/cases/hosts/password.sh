#!/usr/bin/env bash
# case: a coordinator does not connect any more after the password of the database's role was changed
# limit: 120
. "$CASES/lib.sh"
postgres
# The file of the store's address has the password; or the file that PGPASSFILE names has it.
for from in storeFile passfile; do
  say "$from"
  put() {
    if [[ $from == storeFile ]]; then
      password "$1"
      return
    fi
    (umask 077 && echo "postgres://bursar@127.0.0.1:$PGPORT/bursar?sslmode=disable" >"$WORK/store" && echo "*:*:*:bursar:$1" >"$WORK/pass.new")
    mv "$WORK/pass.new" "$WORK/pass"
  }
  [[ $from == storeFile ]] || export PGPASSFILE=$WORK/pass
  sql -c "ALTER ROLE bursar PASSWORD 'one'"
  put one
  member "c-$from" "$PORT" 'election: alone'
  coordinator=$LAST
  eventually is_ready "$PORT"
  # The new password is in the file before the old one ends; then the database is restarted.
  put two
  sql -c "ALTER ROLE bursar PASSWORD 'two'"
  postgres_down
  postgres_up
  is_away() { ! is_ready "$PORT"; }
  within 5 is_away || true
  within 30 is_ready "$PORT" || fault "$from: it is not ready 30 s after the password was changed"
  runs "$coordinator" || fault "$from: it has ended"
  grep -i password "$WORK/c-$from.log" | tail -n 3 | cut -c 1-300 || true
  kill "$coordinator"
  ended "$coordinator"
done
