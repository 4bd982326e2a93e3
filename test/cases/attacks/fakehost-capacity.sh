#!/usr/bin/env bash
# case: a made-up host of 1 PiB takes all placements, though its identity bounds its capacity
# limit: 90
. "$CASES/lib.sh"
attacked
python3 "$CASES/attacks/fakehost.py" capacity
