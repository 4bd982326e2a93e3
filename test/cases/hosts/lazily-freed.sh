#!/usr/bin/env bash
# case: memory that an engine gives back with MADV_FREE is granted a second time, and a policy ends
# the engine for it
# limit: 240
. "$CASES/lib.sh"
coordinator
cat >"$WORK/hold.py" <<'P'
import mmap, signal, sys, time
m = mmap.mmap(-1, int(sys.argv[1]) << 20, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS)
m.madvise(15)  # no huge pages
def touch(*_):
    for at in range(0, len(m), 4096): m[at] = 1
signal.signal(signal.SIGUSR1, lambda *_: m.madvise(8))
signal.signal(signal.SIGUSR2, touch)
touch()
while True: time.sleep(1)
P
cat >"$WORK/give.py" <<'P'
import mmap, time
m = mmap.mmap(-1, 300 << 20, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS); m.madvise(15)
for at in range(0, len(m), 4096): m[at] = 1
m.madvise(8)
time.sleep(1000)
P
headroom() { b hosts h1 -o json | python3 -c 'import json, sys; h = json.load(sys.stdin); print(int(h.get("host", h)["headroomBytes"]) >> 20)'; }
used() { b allocations -l "t=$1" -o json | python3 -c 'import json, sys; print(int(json.load(sys.stdin)["allocations"][0]["unreclaimableBytes"]) >> 20)'; }
holds() { (($(used "$1") >= $2)); }
gave() { (($(used "$1") <= $2)); }
# signal NAME SCRIPT: to the processes of python that run it.
signal() {
  local pid found=1
  for pid in $(pgrep -f "$WORK/$2"); do
    [[ $(cat "/proc/$pid/comm" 2>/dev/null) == python* ]] || continue
    kill "-$1" "$pid" && found=0
  done
  return "$found"
}
lives() { b allocations -l "t=$1" -o json | grep -q ACTIVE; }

for kind in none direct; do
  more=
  [[ $kind == direct ]] && more=", cgroup: $CGROUP"
  say "cgroups: $kind"
  agent h1 "engines: {cgroups: $kind$more, logDir: $WORK/logs, policies: [{match: {p: kill}, onOverUse: kill, grace: 3s, stopGrace: 1s}]}"
  start a "$BURSAR" run --memory 500MiB -l user=a -l t=a -- python3 "$WORK/hold.py" 480
  launched=$(b run --detach --memory 500MiB -l user=a -l t=d -- /usr/bin/env python3 "$WORK/hold.py" 480 2>/dev/null)
  for t in a d; do eventually holds "$t" 480; done
  before=$(headroom)
  signal USR1 hold.py || fault 'no engine to signal'
  for t in a d; do within 40 gave "$t" 60 || fault "$t gave back 480 MiB and is shown with $(used "$t")"; done
  sleep 1.5
  after=$(headroom)
  echo "headroom before $before MiB, after $after MiB"
  ((after - before < 480)) || fault "960 MiB that may come back are granted: headroom $before -> $after MiB"
  signal USR2 hold.py
  for t in a d; do within 40 holds "$t" 480 || fault "$t has its memory again and is shown with $(used "$t")"; done
  b stop "$launched" >/dev/null
  signal TERM hold.py || true

  say "a policy that kills"
  start k "$BURSAR" run --memory 100MiB -l user=a -l p=kill -l t=k -- python3 "$WORK/give.py"
  b run --detach --memory 100MiB -l user=a -l p=kill -l t=l -- /usr/bin/env python3 "$WORK/give.py" >/dev/null 2>&1
  sleep 9
  for t in k l; do lives "$t" || fault "$t was ended for memory that it had given back"; done
  signal TERM give.py || true
  kill "$AGENT"
  ended "$AGENT"
  rm -rf "$WORK/state"
done
