#!/usr/bin/env bash
# case: nobody reads an engine's output except on its host
# limit: 60
. "$CASES/lib.sh"
attacked
logs() { python3 "$CASES/engines/logs.py" "$@"; } # TOKEN ID [OFFSET]
export PYTHONPATH=$CASES TOK ADDR
ID=$(as alice "$BURSAR" run --detach -m 8MiB --workdir / -- bash -c 'echo one; until [ -e /tmp/go ] || [ -e '"$WORK"'/tmp/go ]; do sleep 0.1; done; echo two')
logs alice "$ID" >"$WORK/followed" 2>"$WORK/why" &
READER=$!
eventually grep -q one "$WORK/followed" || fault "alice cannot follow her engine: $(cat "$WORK/why")"
said=$(logs mallory "$ID" 2>&1) && fault "mallory reads the output of alice's engine: $said"
[[ $said == *permission_denied* ]] || fault "mallory hears something else: $said"
said=$(logs reader "$ID" 2>&1) && fault "a reader reads the output of alice's engine: $said"

say 'the agent restarts, and the reader sees nothing of it'
kill "$AGENT"
wait "$AGENT"
start agent "$BURSAR" agent --config "$WORK/agent.yaml" --log-format text
: >"$WORK/tmp/go"
wait "$READER" || fault "the reader ended: $(cat "$WORK/why")"
[[ $(cat "$WORK/followed") == $'one\ntwo' ]] || fault "the reader got $(cat "$WORK/followed")"

say 'after the end, from a byte'
[[ $(logs alice "$ID" 5) == wo ]] || fault 'the output from byte 5 is something else'
