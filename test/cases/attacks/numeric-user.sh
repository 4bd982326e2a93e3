#!/usr/bin/env bash
# case: an account that is named by digits gives an engine the user id of somebody else
. "$CASES/lib.sh"
attacked
# The account 61002 has the user id 61009; the user id 61002 is alice's.
as trusted python3 "$CASES/attacks/numeric-user.py" alice 61002
