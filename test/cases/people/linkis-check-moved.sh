#!/usr/bin/env bash
# case: every host has the driver of a database that one program needs, and its command says not where it went
# limit: 120
. "$CASES/lib.sh"
cd "$WORK"
! grep -aq 'go-sql-driver/mysql' "$BURSAR" || fault 'bursar has the driver of MySQL in it'

printf '%s\n' linkis.support.cluster.rule.ec.types=hive wds.linkis.ecm.memory.max=100g >linkis.properties
code=0
said=$("$BURSAR" linkis check linkis.properties --no-database 2>&1) || code=$?
[[ $code == 64 ]] || fault "bursar linkis check ends with $code, want 64: $said"
new=$(sed -n 's/.* run: //p' <<<"$said")
[[ $new == 'bursar-linkis-check linkis.properties --no-database' ]] || fault "no command line of today: $said"

# That command line does what the old one did.
(cd "$TREE" && go build -trimpath -buildvcs=false -o "$WORK/bursar-linkis-check" ./integrations/linkis/bursar-linkis-check)
report=$(PATH=$WORK:$PATH bash -c "$new") || fault "$new fails: $report"
grep -q 'wds.linkis.ecm.memory.max' <<<"$report" || fault "no difference is told: $report"
grep -q 'linkis.support.cluster.rule.ec.types.*kept' <<<"$report" || fault "rules for tasks across clusters are not told: $report"
