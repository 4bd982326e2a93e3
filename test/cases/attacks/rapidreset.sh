#!/usr/bin/env bash
# case: floods of HTTP/2 frames fill the memory of a coordinator or an agent, and others wait
# limit: 400
. "$CASES/lib.sh"
attacked

# kib PID FIELD: of its status.
kib() { awk -v field="$2:" '$1 == field {print $2}' "/proc/$1/status"; }

# flood PID MOST ADDRESS MODE CONNECTIONS [TOKEN]: it may grow by so many MiB, and must answer alice.
flood() {
  local pid=$1 most=$2 idle
  shift 2
  echo 5 >"/proc/$pid/clear_refs" # the peak begins anew
  idle=$(kib "$pid" VmRSS)
  as mallory python3 "$CASES/attacks/rapidreset.py" "$1" "$2" "$3" 4 ${4:+"$4"} &
  sleep 2
  BURSAR_TOKEN_FILE=$TOK/alice timeout 10 "$BURSAR" allocations >/dev/null || fault "$2 at $1: nobody else is answered"
  wait $! || fault "$2 at $1: the attack has failed"
  runs "$pid" || fault "$2 at $1: it has ended"
  local grown=$((($(kib "$pid" VmHWM) - idle) / 1024))
  say "$1 $2 ${4:-}: $grown MiB more than idle"
  ((grown <= most)) || fault "$2 at $1: $grown MiB more than idle, at most $most"
}

for mode in reset headers empty cont ping settings window priority malformed left slow large pipeline half; do
  flood "$COORDINATOR" 150 "$ADDR" "$mode" 300
  flood "$COORDINATOR" 150 "$ADDR" "$mode" 300 "$TOK/mallory"
  flood "$AGENT" 150 "$SOCK" "$mode" 100
done
