#!/usr/bin/env bash
# case: Tab freezes the shell for 15 s, and every command takes as long to fail, if nobody is there
# limit: 60
. "$CASES/lib.sh"
dead=http://127.0.0.1:$((PORT + 7))
# took MOST COMMAND...: it has to end within so many milliseconds, and its output is in $WORK/said.
took() {
  local most=$1 began
  shift
  began=$(date +%s%3N)
  CODE=0
  timeout 20 "$@" >"$WORK/said" 2>&1 </dev/null || CODE=$?
  local ms=$(($(date +%s%3N) - began))
  ((ms <= most)) || fault "took $ms ms instead of $most: ${*:2}"
}
fails() { # MOST COMMAND...
  took "$@"
  [[ $CODE == 69 ]] || fault "ended with $CODE instead of 69: ${*:3}"
  grep -q "nobody answers at .*: \(connection refused\|no such file or directory\)" "$WORK/said" || fault "says: $(head -n 1 "$WORK/said")"
}

say 'commands against an address at which nobody listens'
export BURSAR_ADDR=$dead BURSAR_AGENT=$WORK/none/agent.sock
for command in hosts allocations 'allocations 3f7k' quotas status queues providers audit 'explain -m 1GiB' 'allocate -m 1GiB' 'stop 3f7k' 'release 3f7k' 'host cordon h1'; do
  # shellcheck disable=SC2086 # words
  fails 1900 "$BURSAR" $command
done
fails 1900 "$BURSAR" run -m 1MiB -- true
for command in watch 'watch -l user=alice' 'wait 0000000000001' 'logs -f 0000000000001' 'signal 0000000000001' 'submit -m 1MiB -- true' 'run --remote -m 1MiB -- true'; do
  # shellcheck disable=SC2086 # words
  fails 2500 "$BURSAR" $command
done
fails 1900 "$BURSAR" allocations --agent "$WORK/none/agent.sock"
fails 1900 "$BURSAR" hosts --addr "$dead,http://127.0.0.1:$((PORT + 8)),http://127.0.0.1:$((PORT + 9))"

took 4000 "$BURSAR" hosts --addr consul://127.0.0.1:1/bursar
[[ $CODE == 69 ]] || fault "without Consul: ended with $CODE: $(cat "$WORK/said")"

say 'completion without a coordinator, and with one that hangs'
python3 -c '
import socket, sys, time
s = socket.create_server(("127.0.0.1", int(sys.argv[1])))
time.sleep(60)' $((PORT + 6)) &
HANGS=$!
listens() { (exec 3<>"/dev/tcp/127.0.0.1/$((PORT + 6))") 2>/dev/null; }
eventually listens
completes() { # ADDRESS LINE...
  local line
  for line in "${@:2}"; do
    # shellcheck disable=SC2086 # words
    BURSAR_ADDR=$1 took 1000 "$BURSAR" __complete $line ''
  done
}
for address in "$dead" "http://127.0.0.1:$((PORT + 6))"; do
  completes "$address" stop allocations explain release hosts 'host drain' 'quota delete' queues 'provider delete' 'allocate --host' 'allocate --external'
done
for address in http://no-such-name.invalid:7070 http://192.0.2.1:7070 consul://127.0.0.1:1/bursar; do
  completes "$address" stop hosts 'allocate --external'
done

say 'a request that waits for resources waits for its coordinator, too'
export BURSAR_ADDR=http://127.0.0.1:$PORT
b allocate -m 1MiB -l user=root --wait 3s >"$WORK/allocated" 2>&1 &
WAITS=$!
coordinator
ended $WAITS
! grep -q 'nobody answers' "$WORK/allocated" || fault "it was given up: $(cat "$WORK/allocated")"
