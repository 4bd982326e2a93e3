#!/usr/bin/env bash
# case: a misspelt key of a label is taken in silence, and so is a rule in which nobody can fit
. "$CASES/lib.sh"
coordinator
agent h1

# says TEXT COMMAND...: the output has the text.
says() { local out; out=$("${@:2}" 2>&1) || true; [[ $out == *"$1"* ]]; }
says 'did you mean user?' b run --memory 1MiB -l user=root -l usr=kim -- true || fault 'run -l usr=kim is not warned of'
says 'did you mean engineType?' b explain --memory 1MiB -l user=root -l enginetype=x || fault 'explain does not warn of enginetype'
b run --memory 1MiB -l user=root -l project=x -- true 2>&1 | grep -q warning && fault 'a key of its own is warned of'
says 'did you mean user?' b quota set usr=kim --memory 1GiB || fault 'quota set usr=kim is not warned of'
says 'share one account' b quota set 'tenant=*' --memory 1GiB || fault 'a rule for tenants without tenants is not warned of'
b quota delete 'tenant=*' >/dev/null
printf 'quotas:\n- selector: {user: c3}\n  limit: {memory: 1GiB}\n  normalization: {minimum: {memory: 2GiB}}\n' >"$WORK/rules.yaml"
says 'no request fits' b quota apply -f "$WORK/rules.yaml" || fault 'a minimum above the limit is not told'
body='{"quota": {"selector": {"user": "c4"}, "limit": {"memoryBytes": "1"}, "normalization": {"minimum": {"memoryBytes": "2"}}}}'
says 'normalization.minimum' curl -s -H 'Content-Type: application/json' -d "$body" "$BURSAR_ADDR/bursar.v1.QuotaService/Put" || fault 'it is not refused over the API'
# A wrong value in JSON is told by its field and its right form.
says '600s' curl -s -H 'Content-Type: application/json' -d '{"labels": {"user": "a"}, "wait": "10m"}' "$BURSAR_ADDR/bursar.v1.AllocationService/Allocate" ||
  fault 'the right form of "wait": "10m" is not told'
# The example harms nobody: no request has a tenant here.
kill "$COORDINATOR"
ended "$COORDINATOR"
coordinator "knownLabels: [project]
quotaFiles: [$TREE/examples/quotas.yaml]"
says 'knownLabels' b allocate --memory 1MiB -l user=root -l usr=kim || fault 'a key that is not known is not refused'
within 20 b allocate --memory 1MiB -l user=root -l project=x
! b allocate --memory 1MiB -l user=root -l usr=kim >/dev/null 2>&1 || fault 'a key that is not known is taken'
b allocate --memory 1MiB -l user=root -l project=x >/dev/null || fault 'a key that is known is refused'
for user in $(seq 20); do
  says tenant b explain --memory 8GiB -l "user=u$user" -l creator=shell -o json && fault 'the example limits users by a tenant that nobody has'
done
true
