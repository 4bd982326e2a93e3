#!/usr/bin/env bash
# case: one odd figure of /proc/meminfo closes the host, and keeps an agent from starting
# limit: 90
. "$CASES/lib.sh"
coordinator
# A container's /proc/meminfo, as lxcfs makes it (lxcfs 695, 115; gosigar 102): the same file with other
# lines is seen by an agent that runs and by one that starts.
cp /proc/meminfo "$WORK/meminfo"
cp "$WORK/meminfo" "$WORK/shown"
show() { sed "$@" "$WORK/meminfo" >"$WORK/new"; cat "$WORK/new" >"$WORK/shown"; }
total=$(awk '/^MemTotal/ {print $2}' "$WORK/meminfo")
mount --bind "$WORK/shown" /proc/meminfo

open() { b allocate --memory 64MiB --cpu 100m -l user=a --ttl 1s; }
named() { b hosts h1 | grep -q "$1"; }

agent h1
eventually open || fault 'the control gets nothing'
i=0
for edit in \
  '-e s/^SwapTotal:.*/SwapTotal:_0_kB/ -e s/^SwapFree:.*/SwapFree:_18446744073709346016_kB/ SwapFree' \
  '-e s/^SwapTotal:.*/SwapTotal:_1048576_kB/ -e s/^SwapFree:.*/SwapFree:_1048580_kB/ SwapFree' \
  "-e s/^MemAvailable:.*/MemAvailable:_$((total + 4))_kB/ MemAvailable" \
  '-e s/^Buffers:.*/Buffers:_-1_kB/ Buffers'; do
  read -ra words <<<"$edit"
  figure=${words[-1]}
  unset 'words[-1]'
  say "${words[*]}"
  show "${words[@]//_/ }"
  within 12 named "$figure" || fault "$figure is not named in the host's note"
  open >/dev/null || fault "an agent that runs gets no grants with an odd $figure"
  kill "$AGENT"
  ended "$AGENT"
  agent h1 || fault "no agent starts with an odd $figure"
  within 5 open || fault "an agent that was started gets no grants with an odd $figure"
  i=$((i + 1))
done
((i == 4)) || fault 'not all were tried'
(($(grep -c 'has odd figures' "$WORK/agent.log") <= 1)) || fault 'an odd figure is logged more than once'
