#!/usr/bin/env bash
# case: a Release of an engine that runs frees its quota, its host and its countables
# limit: 120
. "$CASES/lib.sh"
attacked "capacity: {gpu: 1}
engines: {cgroups: none, logDir: $WORK/logs}"
b quota set user=mallory --memory 100MiB --cpu 1
as mallory python3 "$CASES/attacks/release-running.py"
for n in 1 2 3 4 5; do
  as mallory "$BURSAR" run --memory 90MiB -l user=mallory -- true || fault "run $n of one after the other: the quota is not free with the answer"
done
