#!/usr/bin/env bash
# Makes sure that this machine has what test/yarn runs: a Java, as .cache/tools/yarn-java, and for
# each version of Hadoop its jars, as .cache/tools/yarn-VERSION. Jars come by their Maven
# coordinates (pom.xml) from where Maven gets them on this machine, and must be those of
# VERSION.sha256, no more and no fewer. `provide.sh --record` writes these lists again, for a
# review before they are committed.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/../.."

versions=(2.7.7 2.10.2 3.3.6 3.4.3 3.5.0)
copy=org.apache.maven.plugins:maven-dependency-plugin:3.6.1:copy-dependencies
record=${1:-}

mkdir -p .cache/tools
exec 9>.cache/tools/yarn.lock # two of these at once would install the same things
flock 9

# Hadoop 3.5 needs 17; from 23 on Java has no longer what all of them take a user's name from.
usable() {
  local major
  major=$("$1" -version 2>&1 | sed -nE '1s/.*version "([0-9]+).*/\1/p') && [[ $major -ge 17 && $major -lt 23 ]]
}

find_java() {
  local java
  for java in ${JAVA_HOME:+"$JAVA_HOME/bin/java"} /usr/lib/jvm/*/bin/java /usr/java/*/bin/java \
    "$(command -v java || echo /none)"; do
    if [[ -x $java ]] && usable "$java"; then
      readlink -f "$java"
      return
    fi
  done
  return 1
}

install() {
  if ! command -v apt-get >/dev/null; then
    echo "YARN: no $1 found, and this is no Debian: install a Java of 17 to 22, and Maven" >&2
    exit 1
  fi
  if [[ $(id -u) != 0 ]]; then
    echo "YARN: no $1 found: run as root: apt-get update && apt-get install -y ${*:2}" >&2
    exit 1
  fi
  DEBIAN_FRONTEND=noninteractive apt-get -o DPkg::Lock::Timeout=600 install -y -q --no-install-recommends "${@:2}"
}

# again COMMAND: three times at most. A connection that breaks is no fault of this machine, and what
# came is kept.
again() { "$@" || "$@" || "$@"; }

# jre is the oldest that will do which this system has.
jre() {
  local version
  for version in 17 21; do
    if [[ -n $(apt-cache search --names-only "^openjdk-$version-jre-headless\$" 2>/dev/null) ]]; then
      echo "openjdk-$version-jre-headless"
      return
    fi
  done
  echo openjdk-17-jre-headless
}

if ! java=$(find_java); then
  [[ $(id -u) != 0 ]] || apt-get update -q || true # what it knows already may do
  install "Java of 17 to 22" "$(jre)"
  java=$(find_java) || { echo "YARN: still no Java of 17 to 22" >&2; exit 1; }
fi
ln -sfn "$java" .cache/tools/yarn-java

# What a list says, however the jars were fetched. A folder is only there once its jars were found
# to be right.
for version in "${versions[@]}"; do
  list=tools/yarn/$version.sha256
  place=.cache/tools/yarn-$version
  if [[ -z $record ]] && cmp -s "$list" "$place/sha256"; then
    continue
  fi
  if ! command -v mvn >/dev/null; then
    [[ $(id -u) != 0 ]] || apt-get update -q || true
    install Maven maven
  fi
  profile=
  case $version in
    2.7.7) profile=old ;;
    3.4.3) profile=more,collector ;;
    *) profile=collector ;;
  esac
  echo "YARN: Hadoop $version (up to 90 MB the first time)"
  new=$(mktemp -d ".cache/tools/.yarn-$version.XXXXXX")
  trap 'rm -rf "$new"' EXIT
  if ! JAVA_HOME=$(dirname "$(dirname "$java")") again mvn -B -ntp -f tools/yarn/pom.xml -P "$profile" -Dhadoop="$version" \
    "$copy" -DincludeScope=runtime -DoutputDirectory="$PWD/$new" >"$new/log" 2>&1 </dev/null; then
    grep -E 'ERROR|BUILD' "$new/log" | head -20 >&2 || true
    echo "YARN: Hadoop $version could not be fetched" >&2
    exit 1
  fi
  rm "$new/log"
  (cd "$new" && LC_ALL=C sha256sum -- *.jar) >"$new/sha256"
  if [[ -n $record ]]; then
    cp "$new/sha256" "$list"
  elif ! diff "$list" "$new/sha256" >&2; then
    echo "YARN: what came for Hadoop $version (>) is not what tools/yarn/$version.sha256 says (<)" >&2
    exit 1
  fi
  chmod 755 "$new"
  rm -rf "$place"
  mv -T "$new" "$place"
  trap - EXIT
done
echo "YARN: Hadoop ${versions[*]} on $("$java" -version 2>&1 | head -n 1)"
