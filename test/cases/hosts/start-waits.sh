#!/usr/bin/env bash
# case: a coordinator that starts while a file, a name, a port or the disk is missing, or PostgreSQL recovers, ends for good
# limit: 300
. "$CASES/lib.sh"
postgres
alive() { [[ $(curl -s -m 2 -o /dev/null -w '%{http_code}' "http://127.0.0.1:$PORT/healthz") == 200 ]]; }

# waits NAME MEND YAML: a coordinator that is started with the YAML goes on, serves /healthz, says
# that it is not ready, and is ready after MEND.
waits() {
  local coordinator unserved=${UNSERVED:-}
  say "$1"
  printf 'listen: %s:%s\n%s\n' "${HOST:-127.0.0.1}" "$PORT" "$3" >"$WORK/$1.conf"
  start "$1" "$BURSAR" coordinator --config "$WORK/$1.conf" --log-format text
  coordinator=$LAST
  if [[ -z $unserved ]]; then
    within 10 alive || fault "$1: /healthz is not served: $(tail -n 1 "$WORK/$1.log" | cut -c 1-300)"
    ! is_ready "$PORT" || fault "$1: it says that it is ready"
  fi
  sleep 6 # of the fault, longer than the slowest pace
  runs "$coordinator" || { ended "$coordinator"; fault "$1: it ended with $CODE: $(tail -n 1 "$WORK/$1.log" | cut -c 1-300)"; }
  [[ -n $unserved ]] || alive || fault "$1: /healthz is not served any more"
  $2
  ! runs "$coordinator" || within 30 is_ready "$PORT" || fault "$1: it is not ready 30 s after it: $(tail -n 1 "$WORK/$1.log" | cut -c 1-300)"
  ! kill "$coordinator" 2>/dev/null || ended "$coordinator"
}

data() { printf 'dataDir: %s/%s' "$WORK" "$1"; }
database() { printf 'dataDir: %s/%s\nelection: alone\nstoreFile: %s' "$WORK" "$1" "$2"; }

mend_quotas() { echo 'quotas: []' >"$WORK/quotas.yaml"; }
waits quotas mend_quotas "$(data q)"$'\n'"quotaFiles: [$WORK/quotas.yaml]"

mend_certificate() {
  openssl req -x509 -newkey ec -pkeyopt ec_paramgen_curve:P-256 -nodes -days 1 -subj /CN=c -addext subjectAltName=IP:127.0.0.1 \
    -keyout "$WORK/c.key" -out "$WORK/c.pem" 2>/dev/null
}
if command -v openssl >/dev/null; then
  # With its certificate it answers HTTPS alone.
  is_ready() { [[ $(ready "$1") == 200 || $(curl -ks -m 3 -o /dev/null -w '%{http_code}' "https://127.0.0.1:$1/readyz") == 200 ]]; }
  waits certificate mend_certificate "$(data t)"$'\n'"tls: {cert: $WORK/c.pem, key: $WORK/c.key}"
  is_ready() { [[ $(ready "$1") == 200 ]]; }
fi

mkdir "$WORK/disk"
mount -t tmpfs -o size=1m,mode=0700 tmpfs "$WORK/disk"
dd if=/dev/zero of="$WORK/disk/full" bs=4k 2>/dev/null || true
mend_disk() { rm "$WORK/disk/full"; }
waits disk mend_disk "$(data disk/c)"

mount -o remount,ro "$WORK/disk"
mend_readonly() { mount -o remount,rw "$WORK/disk"; }
waits readonly mend_readonly "$(data disk/d)"

start holder python3 -c "import socket, time; s = socket.create_server(('127.0.0.1', $PORT)); time.sleep(300)"
holder=$LAST
holds() { ! python3 -c "import socket; socket.create_server(('127.0.0.1', $PORT))" 2>/dev/null; }
eventually holds
mend_port() { kill "$holder"; ended "$holder"; }
UNSERVED=yes waits port mend_port "$(data p)"

sed "s/@127.0.0.1:/@db.bursar.test:/" "$WORK/store" >"$WORK/named"
chmod 600 "$WORK/named"
mend_name() { echo '127.0.0.1 db.bursar.test' >>/etc/hosts; }
waits name mend_name "$(database n "$WORK/named")"

mend_address() { (umask 077 && cp "$WORK/store" "$WORK/later.new"); mv "$WORK/later.new" "$WORK/later"; }
waits address mend_address "$(database a "$WORK/later")"

# A server that recovers refuses with 57P03; this one does until it is promoted.
postgres_down
echo 'hot_standby = off' >>"$DATABASE/postgresql.conf"
as_postgres touch "$DATABASE/standby.signal"
as_postgres "$PGBIN/pg_ctl" -D "$DATABASE" -l "$DATABASE/log" -W start >/dev/null
recovers() { [[ $("$PGBIN/psql" -X -At -c 'SELECT 1' "$(cat "$WORK/store")" 2>&1 || true) =~ starting\ up|accepting\ connections ]]; }
eventually recovers
mend_recovery() { as_postgres "$PGBIN/pg_ctl" -D "$DATABASE" promote >/dev/null; }
waits recovery mend_recovery "$(database r "$WORK/store")"

consul
hostname localhost
mend_hostname() { hostname rm-1; }
HOST=0.0.0.0 waits hostname mend_hostname "$(data h)"$'\n'"election: consul"$'\n'"insecure: true"$'\n'"consul: {address: '$CONSUL_HTTP_ADDR'}"

say 'dev and --check do not wait'
timeout 10 "$BURSAR" coordinator --check --listen "127.0.0.1:$PORT" --data-dir "$WORK/q" --quotas "$WORK/nowhere.yaml" >"$WORK/out" 2>&1 && CODE=0 || CODE=$?
((CODE == 78)) || fault "--check ends with $CODE: $(head -n 1 "$WORK/out")"
timeout 10 "$BURSAR" dev --listen "127.0.0.1:$PORT" --data-dir "$WORK/dev" --agent-socket "$WORK/dev.sock" --quotas "$WORK/nowhere.yaml" >"$WORK/out" 2>&1 && CODE=0 || CODE=$?
((CODE == 66)) || fault "dev ends with $CODE: $(head -n 1 "$WORK/out")"
