#!/usr/bin/env bash
# Makes sure that this machine has what test/linkis runs in addition to Linkis itself: a JDK of 17 as
# .cache/tools/linkis-jdk, MariaDB's server, an empty database of Linkis as
# .cache/tools/linkis-database, and the jars of others that are on the class paths of Linkis's
# services, as .cache/tools/linkis-jars. Jars come by their Maven coordinates from where Maven gets
# them on this machine, and must be those of jars.sha256. Linkis itself is in LINKIS_HOME (default
# ../shared/linkis next to the checkout): nobody publishes its servers. Without it there are only the
# JDK and Maven, with which integrations/linkis is built. `provide.sh --record` writes jars.sha256
# again from Linkis's class paths, for a review before it is committed.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/../.."

linkis=${LINKIS_HOME:-../shared/linkis}
record=${1:-}
list=tools/linkis/jars.sha256
jars=.cache/tools/linkis-jars
database=.cache/tools/linkis-database

mkdir -p .cache/tools
exec 9>.cache/tools/linkis.lock # two of these at once would install the same things
flock 9

install() {
  if ! command -v apt-get >/dev/null; then
    echo "LINKIS: no $1 found, and this is no Debian: install ${*:2}" >&2
    exit 1
  fi
  if [[ $(id -u) != 0 ]]; then
    echo "LINKIS: no $1 found: run as root: apt-get update && apt-get install -y ${*:2}" >&2
    exit 1
  fi
  apt-get update -q >&2 || true # what it knows already may do
  DEBIAN_FRONTEND=noninteractive apt-get -o DPkg::Lock::Timeout=600 install -y -q --no-install-recommends "${@:2}" >&2
}

# Linkis is for Java 8, and starts on 17 with what test/linkis adds.
find_jdk() {
  local home
  for home in ${JAVA_HOME:+"$JAVA_HOME"} /usr/lib/jvm/* /usr/java/*; do
    if [[ -x $home/bin/javac && $("$home/bin/javac" -version 2>&1) == 'javac 17'* ]]; then
      readlink -f "$home"
      return
    fi
  done
  return 1
}

if ! jdk=$(find_jdk); then
  install "JDK of 17" openjdk-17-jdk-headless
  jdk=$(find_jdk) || { echo "LINKIS: still no JDK of 17" >&2; exit 1; }
fi
ln -sfn "$jdk" .cache/tools/linkis-jdk

# again COMMAND: three times at most. A connection that breaks is no fault of this machine, and what
# came is kept.
again() { "$@" || "$@" || "$@"; }

find_mariadb() {
  local program
  for program in "$(command -v mariadbd || echo /none)" /usr/sbin/mariadbd /usr/libexec/mariadbd; do
    if [[ -x $program ]]; then
      echo "$program"
      return
    fi
  done
  return 1
}

if ! command -v mvn >/dev/null; then
  install Maven maven
fi

# What Maven needs to build and test integrations/linkis, so that this needs no network any more. It
# is fetched again if the list has changed, or Maven's repository has gone.
fetched=.cache/tools/linkis-maven
needs=$(cat integrations/linkis/pom.xml integrations/linkis/*/pom.xml integrations/linkis/build.sh | sha256sum)
repository=$HOME/.m2/repository
if [[ $(cat "$fetched" 2>/dev/null) != "$needs $repository" || ! -d $repository/org/apache/maven/surefire ]]; then
  echo "LINKIS: what Maven needs for integrations/linkis (60 MB the first time)"
  JAVA_HOME=$jdk again integrations/linkis/build.sh --fetch
  echo "$needs $repository" >"$fetched"
fi

if [[ ! -d $linkis/jars || ! -d $linkis/sql ]]; then
  echo "LINKIS: THERE IS NO BUILT LINKIS IN $linkis (LINKIS_HOME): a folder with jars/, sql/, conf/" \
    "and the class paths is wanted. NOTHING IS TRIED WITH A REAL LINKIS." >&2
  [[ -z $record ]] || exit 1
  exit 0
fi

if ! mariadb=$(find_mariadb); then
  install "MariaDB" mariadb-server-core
  mariadb=$(find_mariadb) || { echo "LINKIS: still no MariaDB" >&2; exit 1; }
fi
ln -sfn "$mariadb" .cache/tools/linkis-mariadbd

# coordinates are the jars to fetch: GROUP:ARTIFACT:VERSION[:CLASSIFIER], one a line.
coordinates() {
  if [[ -z $record ]]; then
    cut -d ' ' -f 3 "$list"
    return
  fi
  # The lists have lost classifiers. The native part of epoll is needed for Unix sockets.
  {
    cat "$linkis"/classpath-*.txt
    echo mysql:mysql-connector-java:8.0.28
    echo io.netty:netty-transport-native-epoll:4.1.86.Final:linux-x86_64
    echo io.netty:netty-transport-native-epoll:4.1.86.Final:linux-aarch_64
  } | grep -v '^org\.apache\.linkis:' | LC_ALL=C sort -u
}

# Each jar as GROUP.ARTIFACT-VERSION[-CLASSIFIER].jar.
sums() {
  local group artifact version classifier sum
  while IFS=: read -r group artifact version classifier; do
    sum=$(sha256sum <"$1/$group.$artifact-$version${classifier:+-$classifier}.jar")
    echo "${sum%% *}  $group:$artifact:$version${classifier:+:$classifier}"
  done
}

# Maven copies what one module names one after the other; modules at a time.
project() {
  local modules=12 module
  {
    echo '<project xmlns="http://maven.apache.org/POM/4.0.0"><modelVersion>4.0.0</modelVersion>'
    echo '<groupId>bursar</groupId><artifactId>linkis</artifactId><version>1</version><packaging>pom</packaging><modules>'
    for ((module = 0; module < modules; module++)); do echo "<module>$module</module>"; done
    echo '</modules></project>'
  } >"$1/pom.xml"
  coordinates >"$1/coordinates"
  for ((module = 0; module < modules; module++)); do
    mkdir "$1/$module"
    {
      cat <<EOF
<project xmlns="http://maven.apache.org/POM/4.0.0"><modelVersion>4.0.0</modelVersion>
<groupId>bursar</groupId><artifactId>linkis-$module</artifactId><version>1</version><packaging>pom</packaging>
<build><plugins><plugin><groupId>org.apache.maven.plugins</groupId><artifactId>maven-dependency-plugin</artifactId><version>3.6.1</version>
<executions><execution><phase>validate</phase><goals><goal>copy</goal></goals></execution></executions>
<configuration><outputDirectory>$2</outputDirectory><prependGroupId>true</prependGroupId><artifactItems>
EOF
      awk -F : -v modules=$modules -v module=$module 'NR % modules == module {
        printf "<artifactItem><groupId>%s</groupId><artifactId>%s</artifactId><version>%s</version>", $1, $2, $3
        if ($4 != "") printf "<classifier>%s</classifier>", $4
        print "</artifactItem>"
      }' "$1/coordinates"
      echo '</artifactItems></configuration></plugin></plugins></build></project>'
    } >"$1/$module/pom.xml"
  done
}

if [[ -n $record ]] || ! cmp -s "$list" "$jars/sha256"; then
  echo "LINKIS: $(coordinates | wc -l) jars of others (200 MB the first time)"
  new=$(mktemp -d .cache/tools/.linkis.XXXXXX)
  trap 'rm -rf "$new"' EXIT
  mkdir "$new/project" "$new/jars"
  project "$new/project" "$PWD/$new/jars"
  if ! JAVA_HOME=$jdk again mvn -B -ntp -T 12 -f "$new/project/pom.xml" validate >"$new/log" 2>&1 </dev/null; then
    grep -E 'ERROR|BUILD' "$new/log" | cut -c -400 | head -20 >&2 || true
    echo "LINKIS: its jars could not be fetched" >&2
    exit 1
  fi
  sums "$new/jars" <"$new/project/coordinates" >"$new/jars/sha256"
  if [[ -n $record ]]; then
    cp "$new/jars/sha256" "$list"
  elif ! diff "$list" "$new/jars/sha256" >&2; then
    echo "LINKIS: what came (>) is not what $list says (<)" >&2
    exit 1
  fi
  rm -rf "$jars"
  mv -T "$new/jars" "$jars"
  rm -rf "$new"
  trap - EXIT
fi

# The schema and its first rows, made once: a test copies the folder. There are no users in it, and
# a server on it asks for none.
made=$({ "$mariadb" --version; cat "$linkis"/sql/linkis_{ddl,dml}.sql tools/linkis/provide.sh; } | sha256sum)
if [[ $(cat "$database/made" 2>/dev/null) != "$made" ]]; then
  new=$(mktemp -d .cache/tools/.linkis.XXXXXX)
  trap 'rm -rf "$new"' EXIT
  mkdir "$new/data"
  # A server that bootstraps reads a statement until a line ends with a semicolon.
  {
    printf 'CREATE DATABASE linkis CHARACTER SET utf8mb4;\nUSE linkis;\nSET NAMES utf8mb4;\n'
    sed -E 's/;[[:space:]]*(--.*)?$/;\n/' "$linkis"/sql/linkis_{ddl,dml}.sql
  } | "$mariadb" --no-defaults --bootstrap --datadir="$PWD/$new/data" --tmpdir="$PWD/$new" \
    --lc-messages-dir=/usr/share/mysql --lower-case-table-names=1 --innodb-log-file-size=8M \
    --innodb-flush-method=nosync --innodb-flush-log-at-trx-commit=0 --user="$(id -un)" >"$new/log" 2>&1 || {
    tail -20 "$new/log" >&2
    echo "LINKIS: its database could not be made" >&2
    exit 1
  }
  echo "$made" >"$new/made"
  rm -f "$new/log"
  chmod 755 "$new"
  rm -rf "$database"
  mv -T "$new" "$database"
  trap - EXIT
fi
echo "LINKIS: $linkis, $("$mariadb" --version | cut -d ' ' -f 4), $("$jdk/bin/javac" -version)"
