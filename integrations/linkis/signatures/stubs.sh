#!/usr/bin/env bash
# Makes a jar of stubs: stubs.sh INTO.jar [VERSION]. The classes of Linkis that the adapter touches,
# with the members that their committed signatures have and no behaviour. For compiling only.
set -euo pipefail
here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
jar=$1 version=${2:-1.8.0}
[[ -d $here/$version ]] || {
  echo "LINKIS: stubs.sh: version \"$version\": want one of $(cd "$here" && echo */)" >&2
  exit 1
}
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
# What is not held of a version is taken to be as in 1.8.0.
mkdir "$work/signatures"
cp "$here"/1.8.0/*.txt "$work/signatures"
cp "$here/$version"/*.txt "$work/signatures"
read -ra java <<<"${SIGNATURES:-java -XX:TieredStopAtLevel=1 -XX:+UseSerialGC $here/Signatures.java}"
"${java[@]}" stubs "$work/signatures" "$work/src"
find "$work/src" -name '*.java' >"$work/sources"
for attempt in 1 2 3; do
  javac -J-XX:TieredStopAtLevel=1 -J-XX:+UseSerialGC -nowarn -Xlint:none --release 8 -Xmaxerrs 10000 -d "$work/classes" @"$work/sources" 2>"$work/log" && break
  # Scala's compiler repeats members of traits with types that Java refuses: those of the trait do.
  clashes=$(sed -nE 's/^(.*\.java):([0-9]+): error: (name clash|types .* are incompatible|.* cannot (override|implement) .*|incompatible types|method .* is already defined).*/\1 \2/p' "$work/log" | sort -u)
  if [[ -z $clashes || $attempt == 3 ]]; then
    cat "$work/log" >&2
    exit 1
  fi
  while read -r file line; do
    sed -i "${line}s|^  .*|  // &|" "$file"
  done <<<"$clashes"
done
mkdir -p "$(dirname "$jar")"
# Of other libraries there are only placeholders: they are on the class path as they are.
jar --create --file "$jar" --date 2026-01-01T00:00:00Z -C "$work/classes" org/apache/linkis
