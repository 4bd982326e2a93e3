#!/usr/bin/env bash
# case: the command line drops a backslash of a user's name, and the user passes a limit
. "$CASES/lib.sh"
coordinator
printf '%s\n' 'CORP\alice:x:63001:63001::/tmp:/bin/sh' >>/etc/passwd
agent h1
b quota set 'user=CORP\alice' --memory 10MiB --force >/dev/null
b quotas -o json | grep -Fq '"user": "CORP\\alice"' || b quotas -o json | grep -Fq '"user":"CORP\\alice"' ||
  fault "quota set user=CORP\\alice sets another rule: $(b quotas)"
hers() { setpriv --reuid 63001 --regid 63001 --clear-groups env -i PATH=/usr/bin:/bin USER='CORP\alice' BURSAR_AGENT="$SOCK" "$BURSAR" "$@"; }
[[ $(hers run --memory 1MiB -- echo hi) == hi ]] || fault 'she cannot run without a label'
[[ $(hers run --memory 1MiB --label 'user=CORP\alice' -- echo hi) == hi ]] || fault 'she cannot run with --label user=$USER'
[[ $(hers run --detach --memory 1MiB -l 'user=CORP\alice' -- true) ]] || fault 'the agent starts no engine of hers'
! b run --memory 20MiB --label 'user=CORP\alice' -- true 2>/dev/null || fault 'root runs more for her than her limit allows'
# A value is kept as it is, or refused.
for value in 'a\nb' 'a\x41' '\\server\share' 'C:\jobs' 'a\,b' '"x"' 'a"b' 'x\'; do
  got=$(b allocate --memory 1MiB -l user=u -l "k=$value" -o json 2>/dev/null) || continue
  printf %s "$got" | python3 -c 'import json, sys; j = json.load(sys.stdin); sys.exit(j.get("allocation", j)["labels"]["k"] not in sys.argv[1:])' "$value" "$([[ $value == '"x"' ]] && echo x)" ||
    fault "k=$value is read as something else: $(printf %s "$got" | grep -F '"k"')"
done
# What is printed is accepted.
for value in 'a,b' ' a ' 'CORP\alice' '\\server\share' 'a*' '"' "it's"; do
  id=$(VALUE=$value python3 -c 'import os; from api import must; print(must("AllocationService/Allocate", {"labels": {"user": "u", "k": os.environ["VALUE"]}, "resource": {"memoryBytes": "1"}}, tcp=True)["allocation"]["id"])')
  labels=$(b allocations "$id" | sed -n 's/^labels  *//p')
  b allocate --memory 1MiB -l "$labels" -o json | VALUE=$value python3 -c 'import json, os, sys; j = json.load(sys.stdin); sys.exit(j.get("allocation", j)["labels"]["k"] != os.environ["VALUE"])' ||
    fault "labels that are printed as $labels are not accepted so"
done
