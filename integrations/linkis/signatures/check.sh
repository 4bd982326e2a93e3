#!/usr/bin/env bash
# Compares what the adapter uses of Linkis with the committed signatures: check.sh [JARS]
#   - every class of Linkis that its class files name has a signature;
#   - with the folder of Linkis's jars: they are those of 1.8.0;
#   - compiled against the signatures of each version, the class files are the same, byte for byte: so
#     every method, field and superclass that is used is there, with the same types.
# The adapter must be compiled (integrations/linkis/build.sh).
set -euo pipefail
here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
tree=$(cd "$here/.." && pwd)
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
failed=0
complain() {
  echo "LINKIS: signatures: $*" >&2
  failed=1
}

# These JVMs are too short-lived for the optimising compiler.
brief=(-XX:TieredStopAtLevel=1 -XX:+UseSerialGC)
export MAVEN_OPTS=${MAVEN_OPTS:-${brief[*]}}
javac "${brief[@]/#/-J}" -d "$work/program" "$here/Signatures.java"
signatures=(java "${brief[@]}" -cp "$work/program" Signatures)
export SIGNATURES="${signatures[*]}"

"${signatures[@]}" touched "$tree"/{manager,ecm}/target/{classes,test-classes} >"$work/touched"
while read -r class; do
  [[ -f $here/1.8.0/$class.txt ]] || complain "the adapter uses $class: want 1.8.0/$class.txt: run update.sh"
done <"$work/touched"

if [[ -n ${1:-} ]]; then
  "${signatures[@]}" make "$work/1.8.0" "$(find "$1" -name 'linkis-*.jar' -printf '%p:')" "$work/touched"
  diff -r "$here/1.8.0" "$work/1.8.0" >"$work/diff" || {
    cat "$work/diff" >&2
    complain "1.8.0 differs from the jars in $1 (< committed, > as they are): want the same: run update.sh"
  }
fi

# The modules, without what was built, once for each version: one Maven compiles all.
read -ra versions <<<"${VERSIONS:-$(cd "$here" && echo */)}"
modules=
for version in "${versions[@]%/}"; do
  copy=$work/tree/$version
  mkdir -p "$copy"
  tar -C "$tree" --exclude=target --exclude=src/test -cf - pom.xml client manager ecm | tar -C "$copy" -xf -
  "$here/stubs.sh" "$work/stubs-$version.jar" "$version"
  sed -i -e "s|<version>0\.1\.0</version>|<version>0.1.0-$version</version>|" \
    -e "s|\${linkis.stubs}|$work/stubs-$version.jar|" "$copy"/pom.xml "$copy"/*/pom.xml
  modules+="<module>$version</module>"
done
cat >"$work/tree/pom.xml" <<EOF
<project xmlns="http://maven.apache.org/POM/4.0.0">
  <modelVersion>4.0.0</modelVersion>
  <groupId>check</groupId><artifactId>check</artifactId><version>1</version><packaging>pom</packaging>
  <modules>$modules</modules>
</project>
EOF
mvn -q -B -o -fae -f "$work/tree/pom.xml" -Dbursar.binary= -Dlinkis.stubs=there compile >"$work/log" 2>&1 || true
for version in "${versions[@]%/}"; do
  copy=$work/tree/$version
  before=$failed
  for module in manager ecm; do
    if grep -q "$copy/$module/" "$work/log" || [[ ! -d $copy/$module/target/classes ]]; then
      grep -E 'ERROR.*(\.java|symbol|location|required|found)' "$work/log" >&2 || cat "$work/log" >&2
      complain "$module does not compile against Linkis $version"
      continue
    fi
    diff -rq "$tree/$module/target/classes" "$copy/$module/target/classes" >"$work/diff" || {
      cat "$work/diff" >&2
      complain "$module uses members that Linkis $version has with other types (or it was not compiled since it was changed)"
    }
  done
  [[ $failed == "$before" ]] || continue
  missing=$(comm -23 <(cd "$here/1.8.0" && ls) <(cd "$here/$version" && ls) | sed 's/\.txt$//')
  echo "LINKIS: signatures: $version: all that is used is there${missing:+; not held, and taken to be as in 1.8.0: $(wc -l <<<"$missing") of $(find "$here/1.8.0" -name '*.txt' | wc -l) classes}"
done
exit "$failed"
