#!/usr/bin/env bash
# case: a name that a user of YARN gave a queue makes the other queues unknown, or cannot be written
. "$CASES/lib.sh"
coordinator
agent h1
python3 "$CASES/reports/odd-queue-names.py"
