#!/usr/bin/env bash
# case: an engine reads the machine's memory before its cgroup has its limit
# limit: 90
. "$CASES/lib.sh"
coordinator
agent h1 "engines: {cgroups: direct, cgroup: $CGROUP, logDir: $WORK/logs, policies: [{match: {engineType: lim}, onOverUse: limit}]}"

# The command prints the limit of its own cgroup as its first deed, in MiB.
cat >"$WORK/limit.sh" <<'SH'
#!/bin/sh
while IFS=: read -r number controllers path; do
  case $number,$controllers, in
  *,memory,*) file=/sys/fs/cgroup/memory$path/memory.limit_in_bytes ;;
  0,,) file=/sys/fs/cgroup$path/memory.max ;;
  *) continue ;;
  esac
  [ -r "$file" ] || continue
  read -r limit <"$file"
  [ "$limit" = max ] || echo $((limit / 1048576))
  exit
done </proc/self/cgroup
SH
chmod 755 "$WORK/limit.sh"

say 'ten times in the foreground'
for i in 1 2 3 4 5 6 7 8 9 10; do
  saw=$("$BURSAR" run -m 512MiB -l user=root -l engineType=lim -- "$WORK/limit.sh" 2>"$WORK/err")
  ((${saw:-0} >= 500 && ${saw:-0} <= 600)) || fault "the command has seen a limit of '$saw' MiB, not of 512 and its tolerance: $(cat "$WORK/err")"
done

say 'ten times in the background'
for i in 1 2 3 4 5 6 7 8 9 10; do
  id=$("$BURSAR" run --detach -m 512MiB -l user=root -l engineType=lim --env PATH -- "$WORK/limit.sh")
  printed() { [[ -s $WORK/logs/$id/stdout ]]; }
  within 5 printed || true
  saw=$(cat "$WORK/logs/$id/stdout")
  ((${saw:-0} >= 500 && ${saw:-0} <= 600)) || fault "the launched command has seen a limit of '$saw' MiB"
done

if command -v java >/dev/null; then
  say 'a JVM'
  for i in 1 2 3 4 5; do
    heap=$("$BURSAR" run -m 512MiB -l user=root -l engineType=lim -- java -XX:+PrintFlagsFinal -version 2>/dev/null | awk '/ MaxHeapSize/ {printf "%d", $4 / 1048576}')
    ((heap > 0 && heap <= 512)) || fault "a JVM has chosen $heap MiB of heap"
  done
fi

say 'what the command is, does not change'
BURSAR_HELD=9,9,/bin/true "$BURSAR" run -m 8MiB -l user=root -- sh -c 'exit 7' && code=0 || code=$?
[[ $code == 7 ]] || fault "the exit code is $code, not 7"
"$BURSAR" run -m 8MiB -l user=root -- "$WORK/none" 2>/dev/null && code=0 || code=$?
[[ $code == 127 ]] || fault "the exit code of a missing program is $code, not 127"
printf 'x' >"$WORK/odd" && chmod 755 "$WORK/odd"
"$BURSAR" run -m 8MiB -l user=root -- "$WORK/odd" 2>/dev/null && code=0 || code=$?
[[ $code == 126 ]] || fault "the exit code of no program is $code, not 126"
"$BURSAR" run -m 8MiB -l user=root -- sh -c 'kill -TERM $$' && code=0 || code=$?
[[ $code == 143 ]] || fault "the exit code of a signal is $code, not 143"
what='ls /proc/self/fd; grep Sig[BI] /proc/self/status | sed "s/[0-9a-f]*\\([0-9a-f]\{8\}\\)$/\\1/"; ulimit -n; env | grep -v "^BURSAR_[ACM]\|^_="'
sh -c "$what" >"$WORK/bare" 2>"$WORK/err"
"$BURSAR" run -m 8MiB -l user=root -- sh -c "$what" >"$WORK/held" 2>"$WORK/err" || true
cmp "$WORK/bare" "$WORK/held" || fault "the command has other files, signals, limits or variables: $(diff "$WORK/bare" "$WORK/held")"
printf 'from the terminal' | "$BURSAR" run -m 8MiB -l user=root -- cat | grep -qx 'from the terminal' || fault 'the input is lost'
none() { [[ $(b allocations | grep -c active) == 0 ]]; }
within 5 none || fault "something is still booked: $(b allocations)"
