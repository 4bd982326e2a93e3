#!/usr/bin/env bash
# case: a system container that is restarted with its agent is shut out until its engines are given up
. "$CASES/lib.sh"
coordinator
agentyaml vm
container() {
  start "$1" unshare --mount --pid --fork --kill-child sh -c \
    "mount -t proc proc /proc; exec $BURSAR agent --config $WORK/agent.yaml --log-format text"
  CONTAINER=$LAST
}
inside() { nsenter -t "$(pgrep -P "$CONTAINER")" -m -p -- "$@"; }
container agent1
eventually takes vm
start engine inside "$BURSAR" run --memory 100MiB -l user=a -- sleep 1000
active() { b allocations -l user=a | grep -q active; }
eventually active

say 'the container is restarted: the boot stays, the pid namespace is another'
kill -9 "$CONTAINER"
ended "$CONTAINER"
container agent2
works() { inside timeout 5 "$BURSAR" run --memory 1MiB -l user=b -- true; }
within 20 works || fault "the host starts no engines: $(b hosts; grep -E 'WARN' "$WORK/agent2.log" | head -n 3)"
gone() { ! active; }
within 10 gone || fault "an engine that ended with its container is still booked: $(b allocations)"
