#!/usr/bin/env bash
# case: bursar says that the kernel holds an engine at a limit that the kernel does not have
# limit: 90
. "$CASES/lib.sh"
coordinator
agent h1 "engines: {cgroups: direct, cgroup: $CGROUP, logDir: $WORK/logs, policies: [{match: {engineType: lim}, onOverUse: limit}]}"
# touch MIB SECONDS: holds so much memory. A line of input makes it hold more.
cat >"$WORK/touch.py" <<'PY'
import sys
def touch(mib):
    held = bytearray(mib << 20)
    held[::4096] = b"x" * len(held[::4096])
    return held
first = touch(int(sys.argv[1]))
print("touched", flush=True)
sys.stdin.readline()
second = touch(int(sys.argv[2]))
print("more", flush=True)
sys.stdin.readline()
PY
limit() { b allocations "$1" -o json | grep -oE '"memoryLimitBytes": *"?[0-9]+' | grep -oE '[0-9]+$' || echo 0; }
says() { b allocations "$1" | grep -q "$2"; }

say 'an engine in the foreground is held'
mkfifo "$WORK/a"
exec 8<>"$WORK/a"
"$BURSAR" run -m 300MiB -l user=root -l engineType=lim -- python3 "$WORK/touch.py" 200 0 <"$WORK/a" >"$WORK/a.out" 2>&1 &
eventually grep -q touched "$WORK/a.out"
id=$(b allocations -o json | python3 -c 'import json,sys; print(json.load(sys.stdin)["allocations"][0]["id"])')
held() { (($(limit "$id") > 0 && $(limit "$id") <= 360 << 20)); }
within 10 held || fault "the limit that was read back is not shown: $(b allocations "$id")"

say 'its entitlement falls below what it holds'
b resize "$id" -m 100MiB >/dev/null
lowered() { (($(limit "$id") > 0 && $(limit "$id") <= 190 << 20)); }
over() { says "$id" over-use; }
within 20 over || fault 'no over-use is shown'
if says "$id" 'the kernel holds it there'; then fault "no limit is named: $(b allocations "$id" | grep -E 'over-use|limit')"; fi
if ! lowered; then
  named() { says "$id" "the kernel holds it at $(($(limit "$id") >> 20))MiB"; }
  within 10 named || fault "the limit that the kernel has is not named: $(b allocations "$id" | grep -E 'over-use|limit')"
fi

say 'it may have more again: the limit is set within seconds'
b resize "$id" -m 250MiB >/dev/null
fits() { (($(limit "$id") > 0 && $(limit "$id") <= 315 << 20)); }
within 15 fits || fault "the limit was not set again: $(limit "$id"); $(grep -i 'cgroup is not' "$WORK/agent.log" | tail -n 2)"
echo >&8
eventually grep -q more "$WORK/a.out"
echo >&8
exec 8>&-

say 'an engine that was confirmed late'
mkfifo "$WORK/b"
exec 9<>"$WORK/b"
python3 "$WORK/touch.py" 300 100 <"$WORK/b" >"$WORK/b.out" 2>&1 &
pid=$!
eventually grep -q touched "$WORK/b.out"
id=$(b allocate -m 200MiB -l user=root -l engineType=lim 2>/dev/null | grep -oE '^[a-z0-9]+' | head -n 1)
b confirm "$id" --pid "$pid" >/dev/null
within 15 over || fault 'no over-use is shown'
if says "$id" 'the kernel holds it'; then fault "300 MiB of 200 are not held: $(b allocations "$id" | grep -E 'over-use|limit')"; fi
echo >&9
echo >&9
