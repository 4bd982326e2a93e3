#!/usr/bin/env bash
# case: Explain, or any other read, shows a reader the error output of another user's engine
. "$CASES/lib.sh"
attacked
# alice's engine fails, and its last words are a secret.
as alice "$BURSAR" run --detach --memory 8MiB --cpu 10m -l user=alice -- sh -c 'echo secret-of-alice >&2; exit 3' >"$WORK/id"
id=$(tail -n 1 "$WORK/id")
post() { curl -s -m 5 -H "Authorization: Bearer $(cat "$TOK/$1")" -H 'Content-Type: application/json' -d "$3" "http://$ADDR/bursar.v1.$2"; }
ended() { post admin AllocationService/Get "{\"id\":\"$id\"}" | grep secret-of-alice; }
eventually ended
for who in reader mallory; do
  for procedure in AllocationService/{Get,Explain,List,Watch} EngineService/{Wait,Logs} ClusterService/{Events,Usage}; do
    body="{\"id\":\"$id\"}"
    [[ $procedure != */List ]] || body='{"states":["ALLOCATION_STATE_RELEASED"]}'
    post "$who" "$procedure" "$body" >"$WORK/answer" || true
    ! grep -aq secret-of-alice "$WORK/answer" || fault "$procedure shows it to $who"
  done
done
