#!/usr/bin/env bash
# Build the peers that `make bench-peers` measures, as bin/peers/NAME: from the module that
# bench/peers/NAME/go.mod pins, or from a checkout, if there is one in the directory PEERS, with what
# its own go.mod pins and replaces: PEERS/yunikorn-core, PEERS/nomad. Nomad's module cannot be had
# without its repository, because it replaces a module that it needs by a folder there. YuniKorn's
# interface is taken from PEERS/yunikorn-scheduler-interface, if that is there.
#
#   build.sh [PEERS]
#
# A peer that cannot be built is named, with the reason; the others are built. Code 1 if none is.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/../.."

peers=${1:-}
declare -A checkouts=([yunikorn]=yunikorn-core [nomad]=nomad)
out=$PWD/bin/peers
mkdir -p "$out"
built=0

for name in yunikorn nomad; do
  rm -f "$out/$name"
  checkout=${peers:+$peers/${checkouts[$name]}}
  log=$out/$name.log
  flags=(-buildvcs=false -o "$out/$name")
  if [[ -n $checkout && -f $checkout/go.mod ]]; then
    checkout=$(cd "$checkout" && pwd)
    from="the checkout $checkout"
    version=$(git -C "$checkout" describe --tags --always --dirty 2>/dev/null || echo checkout)
    # A workspace takes the peer's code and its replacements from the checkout, and writes nothing
    # there.
    export GOWORK=$out/$name.work
    rm -f "$GOWORK"
    go work init "$PWD/bench/peers" "$PWD/bench/peers/$name" "$checkout"
    # The version of a release is higher than that of a commit: the checkout's own one counts.
    interface=github.com/apache/yunikorn-scheduler-interface
    pinned=$(awk -v interface=$interface '$1 == interface { print $2 }' "$checkout/go.mod")
    if [[ -n $pinned && -f $peers/yunikorn-scheduler-interface/go.mod ]]; then
      go work edit -replace="$interface=$(cd "$peers/yunikorn-scheduler-interface" && pwd)"
    elif [[ -n $pinned ]]; then
      go work edit -replace="$interface=$interface@$pinned"
    fi
    flags+=(-ldflags "-s -w -X github.com/bursar/bursar/bench/peers.checkout=$version")
  else
    from="its module"
    [[ -z $checkout ]] || from="its module: there is no $checkout/go.mod"
    export GOWORK=off
    flags+=(-ldflags '-s -w')
  fi
  echo "peers: $name from $from"
  if nice -n 10 go -C "bench/peers/$name" build "${flags[@]}" . >"$log" 2>&1; then
    built=$((built + 1))
    continue
  fi
  grep -v '^go: downloading' "$log" | tail -n 5 | sed 's/^/    /'
  echo "peers: $name was not built, and is not measured. With a checkout of it in DIR/${checkouts[$name]}:" \
    "make bench-peers PEERS=DIR"
done
((built > 0))
