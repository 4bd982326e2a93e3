#!/usr/bin/env bash
# case: the caller's credentials (BURSAR_TOKEN, CONSUL_HTTP_TOKEN) are in the environment of its engine
. "$CASES/lib.sh"
attacked
for how in '' --detach; do
  for all in '' --env-all; do
    : >"$WORK/home/mallory/saw" && chmod 666 "$WORK/home/mallory/saw"
    # shellcheck disable=SC2086 # no argument if it is empty
    as mallory BURSAR_TOKEN="$(cat "$TOK/mallory")" CONSUL_HTTP_TOKEN=secret-of-consul "$BURSAR" run $how ${how:+$all} \
      --memory 8MiB --cpu 10m -l user=mallory -- sh -c "env >$WORK/home/mallory/saw.new; mv $WORK/home/mallory/saw.new $WORK/home/mallory/saw"
    eventually test -s "$WORK/home/mallory/saw"
    ! grep -E '^(BURSAR_TOKEN|CONSUL_HTTP_TOKEN)=' "$WORK/home/mallory/saw" || fault "run $how $all hands them on"
  done
done
