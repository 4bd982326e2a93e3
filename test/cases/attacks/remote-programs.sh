#!/usr/bin/env bash
# case: a caller elsewhere has a listed program execute other code, by variables or by what its account can change
. "$CASES/lib.sh"
mkdir "$WORK/opt" "$WORK/opt/sub"
printf '#!/bin/bash\necho "$0 home=$SPARK_HOME lang=$LANG"\n' >"$WORK/opt/job"
printf '#!bin/sh\ntouch %s/tmp/anywhere\n' "$WORK" >"$WORK/opt/anywhere"
ln -s "$WORK/tmp/mine" "$WORK/opt/link"
printf '#!/bin/sh\necho swapped\n' >"$WORK/tmp/mine"
chmod 755 "$WORK"/opt/job "$WORK/opt/anywhere" "$WORK/tmp/mine"
chown alice "$WORK/tmp/mine"
listed="$WORK/opt/job, $WORK/opt/link, $WORK/opt/anywhere, $WORK/tmp/mine, /bin/true, /bin/bash"
attacked "engines: {cgroups: none, logDir: $WORK/logs, remote: {accounts: [alice], programs: [$listed], environment: {set: {SPARK_HOME: /opt/spark}}}}"
may_launch alice alice
cat >"$WORK/evil" <<S
touch $WORK/tmp/evil
S
chmod 644 "$WORK/evil"
python3 "$CASES/attacks/remote_programs.py"

say 'the check of the file names the program that bounds nothing'
"$BURSAR" agent --config "$WORK/agent.yaml" --check >"$WORK/said" 2>&1 || true
grep -q 'engines.remote.programs\[5\]: /bin/bash executes what its arguments say' "$WORK/said" || fault "--check: $(cat "$WORK/said")"
