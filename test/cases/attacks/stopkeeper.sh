#!/usr/bin/env bash
# case: keepers that were stopped (SIGSTOP) stay for ever, outside of the books
# limit: 180
. "$CASES/lib.sh"
attacked
as mallory python3 "$CASES/attacks/stopkeeper.py" 20
