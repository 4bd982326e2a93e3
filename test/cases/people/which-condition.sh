#!/usr/bin/env bash
# case: a request that no host meets does not say which condition is at fault, or what a waiting one lacks
# limit: 60
. "$CASES/lib.sh"
coordinator
# one HOST LABELS: an agent that gives away 200 MiB and 0.4 cores.
one() {
  agentyaml "$1" "labels: {$2}"$'\n'"capacity: {memory: 200MiB, cpu: 400m}"$'\n'"engines: {cgroups: none, logDir: $WORK/logs}"
  sed -i "s,/agent.sock,/$1.sock,; s,/state,/state-$1," "$WORK/agent.yaml"
  mv "$WORK/agent.yaml" "$WORK/$1.yaml"
  start "$1" "$BURSAR" agent --config "$WORK/$1.yaml" --log-format text
  eventually takes "$1"
}
one h1 "zone: b, cores: '8', disk: ssd"
one h2 "zone: c, cores: '16', gpu: '1'"
one h3 "zone: c, cores: '16'"
export BURSAR_AGENT=$WORK/none.sock
small=(-m 8MiB -c 10m -l user=alice)
# says WANT CODE COMMAND...: what it prints has the text, and it ends with the code.
says() {
  local want=$1 code=$2 got=0
  shift 2
  b "$@" >"$WORK/out" 2>&1 </dev/null || got=$?
  [[ $got == "$code" ]] || fault "$* ends with $got, want $code: $(cat "$WORK/out")"
  grep -qF -- "$want" "$WORK/out" || fault "$* does not say \"$want\": $(cat "$WORK/out")"
}

say 'conditions'
for flags in '--require zone=a' '--require zone=a,disk=ssd' '--require disk=ssd --require zone=a'; do
  # shellcheck disable=SC2086 # words
  says 'no host meets zone=a (hosts have zone b, c)' 75 allocate "${small[@]}" $flags
done
says 'no host meets zone in (a,d) (hosts have zone b, c)' 75 allocate "${small[@]}" --require 'zone in (a, d), cores>4'
says 'no host meets zone notin (b,c) (hosts have zone b, c)' 75 allocate "${small[@]}" --require 'zone not in (c, b)'
says 'no host meets rack (no host has a label rack, but cores, disk, gpu, zone)' 75 allocate "${small[@]}" --require rack
says 'no host meets cores>16 (hosts have cores 16, 8)' 75 allocate "${small[@]}" --require 'cores>16'
says 'every host has cores>4, which is to be avoided' 75 allocate "${small[@]}" --avoid 'cores>4'
says 'no host meets all conditions together: 1 host with disk=ssd, 1 host with gpu' 75 allocate "${small[@]}" --require disk=ssd,gpu
says 'no host meets zone=a (hosts have zone b, c)' 0 explain "${small[@]}" --require zone=a
says 'each host that meets its conditions' 75 allocate "${small[@]}" --require zone=b --avoid h1
says 'zone=a (it has zone=b)' 65 allocate "${small[@]}" --host h1 --require zone=a
id=$(b allocate "${small[@]}" --require zone=a --wait 1h --async)
says 'no host meets zone=a (hosts have zone b, c)' 0 allocations
says 'no host meets zone=a (hosts have zone b, c)' 0 allocations "$id"
says 'no host meets zone=a (hosts have zone b, c)' 0 explain "$id"
b release "$id" >/dev/null

say 'labels of hosts'
says 'cores=8,disk=ssd,zone=b' 0 hosts -o wide
says 'cores=8,disk=ssd,zone=b' 0 hosts h1
says '--show-labels' 0 hosts --help
says 'cores=8,disk=ssd,zone=b' 0 hosts --show-labels

say 'what a waiting request lacks'
for host in h1 h2 h3; do b allocate -m 150MiB -c 300m -l user=bob --host "$host" --ttl 1h >/dev/null; done
# waits WANT FLAGS...: a request that waits says so in the list, by its id and when it is made.
waits() {
  local want=$1 id
  shift
  b allocate -l user=alice --wait 1h --async -o json "$@" >"$WORK/out" 2>&1 || fault "allocate $*: $(cat "$WORK/out")"
  grep -qF -- "$want" "$WORK/out" || fault "allocate $* does not say \"$want\": $(cat "$WORK/out")"
  id=$(grep -oE '"id": "[0-9a-z]+"' "$WORK/out" | head -n 1 | cut -d '"' -f 4)
  says "$want" 0 allocations "$id"
  says "$want" 0 allocations --label user=alice
  b release "$id" >/dev/null
}
waits 'the closest, lacks 50MiB of memory' -m 100MiB -c 10m
waits 'the closest, lacks 50MiB of memory and 0.2 cores' -m 100MiB -c 300m
waits 'h1, the closest, lacks 0.1 cores' -m 8MiB -c 200m --require 'cores<16,zone in (a, b)'
waits 'h3, the closest, lacks 20MiB of memory' -m 70MiB -c 10m --require zone=c --avoid gpu=1
waits 'waits for host h2, which lacks 20MiB of memory' -m 70MiB -c 10m --host h2
b host cordon h1 --reason maintenance >/dev/null
waits 'h1, the closest, is cordoned: maintenance' -m 8MiB -c 10m --require zone=b
