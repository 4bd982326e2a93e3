#!/usr/bin/env bash
# case: floods of HTTP/2 frames fill the memory of a coordinator or an agent, others wait for them, or an agent's connection is ended
# limit: 600
. "$CASES/lib.sh"
attacked
b token create --identities "$WORK/identities.yaml" --out "$TOK/standby" --name standby --role coordinator >/dev/null
cp "$TOK/agent1" "$TOK/agent1-stolen"
chown trusted "$TOK/standby" "$TOK/agent1-stolen"

# kib PID FIELD: of its status.
kib() { awk -v field="$2:" '$1 == field {print $2}' "/proc/$1/status"; }

# flood PID ADDRESS MODE CONNECTIONS USER [TOKEN]: the process may take 150 MiB more, and must
# answer alice. Calls without an end, and answers that nobody takes, may take more: one caller may
# have 5,120 of them.
flood() {
  local pid=$1 address=$2 what="$3 at $2 ${6:-}" most=150 idle
  [[ $3 != slow && $3 != left ]] || most=250
  shift
  echo 5 >"/proc/$pid/clear_refs" # the peak begins anew
  idle=$(kib "$pid" VmRSS)
  as "$4" python3 "$CASES/attacks/rapidreset.py" "$address" "$2" "$3" 3 ${5:+"$TOK/$5"} >"$WORK/flood" &
  local attack=$! quiet=alice
  [[ $address != "$SOCK" ]] || quiet=
  sleep 1
  as alice timeout 20 python3 "$CASES/attacks/rapidreset-quiet.py" $quiet || fault "$what: nobody else is answered"
  # A caller of the same address shows who they are on a new connection.
  if [[ $address == "$ADDR" && $2 =~ ^(reset|headers|ended|ping|settings)$ && $3 == 900 && -z ${5:-} ]]; then
    as "$4" curl -sf -m 1 -o /dev/null --http2-prior-knowledge -H 'Content-Type: application/json' \
      -H "Authorization: Bearer $(cat "$TOK/alice")" -d '{}' "http://$ADDR/bursar.v1.AllocationService/List" ||
      fault "$what: a new connection of the same caller waits"
  fi
  wait "$attack" || fault "$what: the attack has failed"
  runs "$pid" || fault "$what: it has ended"
  local grown=$((($(kib "$pid" VmHWM) - idle) / 1024))
  say "$what: $grown MiB more than idle; $(cat "$WORK/flood")"
  ((grown <= most)) || fault "$what: $grown MiB more than idle, at most $most"
}

# floodnew MODE CONNECTIONS USER [TOKEN]: at a coordinator that keeps nothing of the flood before.
floodnew() {
  kill "$COORDINATOR"
  ended "$COORDINATOR"
  coordinator "identities: $WORK/identities.yaml"
  flood "$COORDINATOR" "$ADDR" "$@"
}

for mode in reset headers empty ended cont ping deaf settings window priority malformed left slow large pipeline half; do
  floodnew "$mode" 900 mallory
  flood "$AGENT" "$SOCK" "$mode" 100 mallory
done
for mode in reset headers ended left slow pipeline; do
  floodnew "$mode" 900 mallory mallory
done
# What agents and coordinators pass on is of many callers: their connections stay.
for who in agent1-stolen standby; do
  for mode in reset headers denied slow ping settings ended; do
    floodnew "$mode" 3 trusted "$who"
    grep -q ' 0 connections ended' "$WORK/flood" || fault "$mode with the token of $who: its connections are ended"
  done
done
