#!/usr/bin/env bash
# case: a subordinate user id acts as the owner of its range, or the owner as the id
# limit: 120
. "$CASES/lib.sh"
attacked
post() { # USER METHOD JSON: the HTTP status
  as "$1" curl -s -m 10 -o "$WORK/tmp/answer.$1" -w '%{http_code}' --unix-socket "$SOCK" -H 'Content-Type: application/json' -d "$3" "http://agent/bursar.v1.$2"
}
[[ $(post mallory AllocationService/Allocate '{"resource":{"memoryBytes":"8388608","cpuMillis":"10"},"reservationTtl":"600s"}') == 200 ]]
sed -nE 's/.*"allocation":\{"id":"([^"]+)".*/\1/p' "$WORK/tmp/answer.mallory" >"$WORK/tmp/owners"
chmod 644 "$WORK/tmp/owners"
[[ -s $WORK/tmp/owners ]]
as mallory python3 "$CASES/attacks/subuid.py" 1 "$CASES/attacks/subuid-rights.py" >"$WORK/out" 2>&1 || true
cat "$WORK/out"
for what in 'as mallory' 'as bob' release stop launch confirm; do
  grep -qE "^$what 40[0-9]$" "$WORK/out" || fault "a subordinate id: $what of its owner"
done
grep -q '^acts True$' "$WORK/out" || fault 'the owner is not charged, or the id does not act as itself'
id=$(cat "$WORK/tmp/700000")
[[ $(post mallory AllocationService/Release "{\"id\":\"$id\"}") == 403 ]] || fault 'the owner releases what its id has'
[[ $(post mallory AllocationService/Stop "{\"id\":\"$id\"}") == 403 ]] || fault 'the owner stops what its id has'
[[ $(post mallory EngineService/Launch "{\"id\":\"$id\",\"command\":[\"true\"],\"workingDirectory\":\"/\"}") == 403 ]] || fault 'the owner launches in what its id has'
