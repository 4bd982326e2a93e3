#!/usr/bin/env bash
# case: the token of one host fills another user's quota with engines that nobody started
. "$CASES/lib.sh"
attacked
b quota set 'user=alice' --memory 4GiB --cpu 4
python3 "$CASES/attacks/fakehost.py" engines
