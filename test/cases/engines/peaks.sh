#!/usr/bin/env bash
# case: peaks are wrong both ways: 400 MiB for a moment are shown as 8, and page cache of a file that
# was read is shown as used
# limit: 120
. "$CASES/lib.sh"
coordinator

field() { b allocations "$1" | awk -v name="$2" 'index($0, name) == 1 {sub(name, ""); sub(/^ +/, ""); print}'; }
# bytes ID FIELD: a number of the allocation's JSON; 0 if it is not there.
bytes() { b allocations "$1" -o json | python3 -c '
import json, sys
a = json.load(sys.stdin)
a = a.get("allocation", a)
for name in sys.argv[1].split("."):
    a = (a or {}).get(name)
print(a or 0)' "$2"; }
newest() { b allocations --ended -l "t=$1" -o json | python3 -c 'import json, sys; print(json.load(sys.stdin)["allocations"][0]["id"])'; }
# near WHAT GOT WANT: within 5 percent.
near() { (($2 * 100 >= $3 * 95 && $2 * 100 <= $3 * 105)) || fault "$1: $(($2 >> 10)) KiB, the kernel says $(($3 >> 10)) KiB"; }
hasended() { ! b allocations -l "t=$1" -o json | grep -q ACTIVE; }

spike='import resource, time
time.sleep(1.5)
b = bytearray(400 << 20); b[::4096] = b"x" * len(b[::4096]); time.sleep(.2); del b
time.sleep(1.5)
print(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss, flush=True)'
moment='import resource
b = bytearray(400 << 20); b[::4096] = b"x" * len(b[::4096])
print(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss, flush=True)'

for kind in none direct; do
  say "engines are measured by their ${kind/none/process trees}"
  more=
  [[ $kind == direct ]] && more=", cgroup: $CGROUP"
  agent h1 "engines: {cgroups: $kind$more, logDir: $WORK/logs}"
  for what in spike moment; do
    kib=$(b run --memory 64MiB -l user=a -l "t=$kind-$what" -- python3 -c "${!what}")
    id=$(newest "$kind-$what")
    near "a $what in the foreground" "$(bytes "$id" measuredPeak.memoryBytes)" "$((kib << 10))"
    id=$(b run --detach --memory 64MiB -l user=a -l "t=$kind-$what-d" -- /usr/bin/env python3 -c "${!what}" 2>/dev/null)
    eventually hasended "$kind-$what-d"
    kib=$(cat "$WORK/logs/$id/stdout")
    near "a $what, launched" "$(bytes "$id" measuredPeak.memoryBytes)" "$((kib << 10))"
    [[ $(bytes "$id" measuredPeakSource) == PEAK_SOURCE_KERNEL ]] || fault "a $what: its peak is known by $(bytes "$id" measuredPeakSource)"
    [[ $(bytes "$id" cpuTime) != 0 ]] || fault "a $what: its processor time is not known"
  done

  head -c 300M /dev/zero >"$WORK/big"
  id=$(b run --detach --memory 64MiB -l user=a -l "t=$kind-file" -- sh -c "cat $WORK/big >$WORK/copy; cat $WORK/copy >/dev/null; sleep 3" 2>/dev/null)
  sleep 2.5
  used=$(b allocations -l "t=$kind-file" | awk 'NR == 2 {print $5}')
  [[ $used =~ KiB$ || $used =~ ^[0-9](\.[0-9]*)?MiB$ ]] || fault "page cache is shown as used: $used"
  eventually hasended "$kind-file"
  (($(bytes "$id" measuredPeak.memoryBytes) < 20 << 20)) || fault "page cache is in the peak: $(field "$id" 'at most')"
  rm -f "$WORK/big" "$WORK/copy"
  kill "$AGENT"
  ended "$AGENT"
  rm -rf "$WORK/state"
done

say "killed at its limit"
agent h1 "engines: {cgroups: direct, cgroup: $CGROUP, logDir: $WORK/logs, policies: [{onOverUse: limit}]}"
id=$(b run --detach --memory 64MiB -l user=a -l t=limit -- /usr/bin/env python3 -c "$moment" 2>/dev/null)
eventually hasended limit
[[ $(bytes "$id" measuredPeakSource) == PEAK_SOURCE_LIMIT ]] || fault "killed at its limit: $(field "$id" 'at most')"
field "$id" 'at most'
