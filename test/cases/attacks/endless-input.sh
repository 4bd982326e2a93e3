#!/usr/bin/env bash
# case: quota apply of an input without end reads until the memory is full
. "$CASES/lib.sh"
coordinator
for file in /dev/zero /dev/stdin; do
  status=0
  # 4 GiB of addresses are far more than a Go program needs to start.
  (ulimit -v $((4 << 20)); timeout 20 "$BURSAR" quota apply -f "$file") < <(yes '# no end') >"$WORK/out" 2>&1 || status=$?
  head -c 600 "$WORK/out"
  case $status in
    65) ;;
    124) fault "quota apply -f $file reads for 20 s" ;;
    *) fault "quota apply -f $file ends with $status, not 65" ;;
  esac
done
