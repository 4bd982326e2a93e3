#!/usr/bin/env bash
# case: a command about an unknown allocation, on a host whose coordinator wants a token, says that the caller is not let in
# limit: 60
. "$CASES/lib.sh"
PORT=7070 ADDR=127.0.0.1:7070 BURSAR_ADDR=http://127.0.0.1:7070
attacked
unset BURSAR_ADDR BURSAR_AGENT BURSAR_TOKEN_FILE
mount -t tmpfs none /run
mkdir /run/bursar
ln -s "$SOCK" /run/bursar/agent.sock
[[ $ADDR == 127.0.0.1:7070 ]] || fault "the coordinator is at $ADDR"
# on COMMAND...: of alice on the engine host, with nothing in the environment.
on() {
  timeout 30 setpriv --reuid alice --regid alice --clear-groups env -i PATH=/usr/bin:/bin LANG=C.UTF-8 HOME="$WORK/home/alice" ${EXTRA:-} "$BURSAR" "$@"
}
for command in stop signal wait logs allocations explain; do
  for id in nosuch 0000000000001; do
    CODE=0
    on "$command" "$id" >"$WORK/said" 2>&1 || CODE=$?
    [[ $CODE == 66 ]] && grep -q "^bursar: no such allocation: \"$id\"" "$WORK/said" && grep -q "^bursar: asking this host's agent" "$WORK/said" ||
      fault "$command $id ends with $CODE: $(cat "$WORK/said")"
  done
done

say 'one that waits for any host'
waits=$(EXTRA="BURSAR_ADDR=http://$ADDR BURSAR_TOKEN_FILE=$TOK/alice" on allocate --async --wait 10m -m 900GiB -l user=alice 2>"$WORK/said" | cut -d ' ' -f 1) || true
if [[ -n $waits ]]; then
  CODE=0
  on allocations "$waits" >"$WORK/said" 2>&1 || CODE=$?
  [[ $CODE == 77 ]] && grep -q BURSAR_ADDR "$WORK/said" || fault "allocations of one that waits ends with $CODE: $(cat "$WORK/said")"
fi
