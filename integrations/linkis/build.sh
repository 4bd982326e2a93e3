#!/usr/bin/env bash
# Builds what Linkis needs to run on Bursar, with its unit tests, into bin/linkis:
#   bursar-linkis-manager.jar, bursar-linkis-ecm.jar, bursar-client.jar
# Linkis's own jars are taken from LINKIS_HOME/jars (default: ../shared/linkis next to the checkout).
# Without them it compiles against stubs that are made from the committed signatures.
# `build.sh -DskipTests` and other arguments go to Maven. `build.sh --fetch` downloads what Maven needs
# for all of it, and builds and tests nothing that counts; after it, CI needs no network.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/../.."
root=$PWD

for tool in mvn javac; do
  command -v "$tool" >/dev/null || {
    echo "LINKIS: no $tool found: apt-get install -y maven openjdk-17-jdk-headless" >&2
    exit 1
  }
done

if [[ -z ${LINKIS_HOME:-} ]]; then
  # A worktree stands somewhere else than the checkout that it belongs to.
  checkout=$(cd "$(git rev-parse --git-common-dir 2>/dev/null || echo .git)/.." && pwd)
  LINKIS_HOME=$checkout/../shared/linkis
fi
LINKIS_JARS=
if [[ -d $LINKIS_HOME/jars ]]; then
  LINKIS_JARS=$(cd "$LINKIS_HOME/jars" && pwd)
  against=(-Dlinkis.jars="$LINKIS_JARS")
else
  echo "LINKIS: there are no jars of Linkis in $LINKIS_HOME/jars (LINKIS_HOME): compiling against" >&2
  echo "LINKIS: the committed signatures. Tests that run Linkis's own classes are left out, and" >&2
  echo "LINKIS: nothing is tried with a real Linkis." >&2
  stubs=$root/.cache/linkis/stubs.jar
  integrations/linkis/signatures/stubs.sh "$stubs"
  against=(-Dlinkis.stubs="$stubs")
fi

# Tests ask a real coordinator.
fetch=
[[ ${1:-} != --fetch ]] || fetch=1
if [[ -z $fetch && ! -x bin/bursar ]]; then
  echo "LINKIS: bin/bursar is not built: make build" >&2
  exit 1
fi

# Two modules at a time: their tests wait more than they compute.
# These JVMs are too short-lived for the optimising compiler.
export MAVEN_OPTS=${MAVEN_OPTS:--XX:TieredStopAtLevel=1 -XX:+UseSerialGC}
mvn=(mvn -q -B -T2 -f integrations/linkis/pom.xml -Dbursar.binary="$root/bin/bursar" "${against[@]}")
# No test has this name; what runs them is fetched all the same.
if [[ -n $fetch ]]; then
  exec "${mvn[@]}" verify -Dtest='*Test#noTestHasThisName' -Dsurefire.failIfNoSpecifiedTests=false -DfailIfNoTests=false
fi
# What Maven has is enough, except for the first time.
log=$(mktemp)
trap 'rm -f "$log"' EXIT
if ! "${mvn[@]}" -o verify "$@" 2>&1 | tee "$log"; then
  grep -q -e 'offline mode' -e 'has not been downloaded' "$log" || exit 1
  if [[ -n ${CI:-} ]]; then
    echo "LINKIS: tests download nothing: tools/linkis/provide.sh has to fetch this" >&2
    exit 1
  fi
  echo "LINKIS: once more, with what Maven lacks" >&2
  "${mvn[@]}" verify "$@"
fi

# What is used of Linkis is in the versions that are held, and the signatures are what there is.
if [[ " $* " != *" -DskipTests"* ]]; then
  integrations/linkis/signatures/check.sh ${LINKIS_JARS:+"$LINKIS_JARS"}
fi

mkdir -p bin/linkis
for jar in client/target/bursar-client.jar manager/target/bursar-linkis-manager.jar ecm/target/bursar-linkis-ecm.jar; do
  if [[ -f integrations/linkis/$jar ]]; then
    install -m 644 "integrations/linkis/$jar" "bin/linkis/$(basename "$jar")"
  fi
done
ls -l bin/linkis
