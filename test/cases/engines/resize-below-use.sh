#!/usr/bin/env bash
# case: a resize below what an engine uses says nothing about what becomes of it
# limit: 60
. "$CASES/lib.sh"
coordinator
agent h1 "engines: {cgroups: none, logDir: $WORK/logs, policies: [{match: {p: observe}, onOverUse: observe}, {match: {p: kill}, onOverUse: kill, grace: 20s}]}"
hold='import time; b = bytearray(100 << 20); b[::4096] = b"x" * len(b[::4096]); time.sleep(50)'
for policy in observe warn kill; do
  say "under the policy $policy"
  id=$(b run --detach -m 200MiB -l user=root -l p=$policy -- python3 -c "$hold" 2>/dev/null)
  uses() { b allocations "$id" -o json | grep -E '"unreclaimableBytes": "1[0-9]{8}"'; }
  eventually uses
  b resize "$id" -m 64MiB 2>"$WORK/said" || fault 'the resize is refused'
  sed 's/^/   /' "$WORK/said"
  grep -qE "it uses 10[0-9.]+MiB of memory, and is entitled to 64MiB now: .*\(policy $policy\)" "$WORK/said" || fault 'resize does not say what happens'
  [[ $policy != kill ]] || grep -qE 'stopped in (19|20)s' "$WORK/said" || fault 'resize does not say when it is stopped'
  b resize "$id" -m 300MiB 2>"$WORK/said"
  [[ ! -s $WORK/said ]] || fault "of a size that fits: $(cat "$WORK/said")"
  b stop "$id" --grace 0s >/dev/null
done
