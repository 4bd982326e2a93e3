#!/usr/bin/env bash
# case: a made-up host of 1 PiB takes all placements, though its identity bounds its capacity
# limit: 90
. "$CASES/lib.sh"
attacked
sed -i -E 's/^( *)host: "?h2"?$/&\n\1capacity: {memory: 64MiB, cpu: 1}\n\1labels: {zone: a}/' "$WORK/identities.yaml"
grep -q 'capacity:' "$WORK/identities.yaml" || fault 'the identity of h2 has no bounds'
python3 "$CASES/attacks/fakehost.py" capacity
