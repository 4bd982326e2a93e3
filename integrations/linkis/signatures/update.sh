#!/usr/bin/env bash
# Writes the signatures anew after the adapter has come to touch other classes of Linkis:
#   update.sh VERSION FOLDER...      folders with Linkis's jars, or with the modules of a built source tree
# The adapter must be compiled (integrations/linkis/build.sh -DskipTests).
set -euo pipefail
here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
version=$1
shift
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
classpath=$(find "$@" \( -name 'linkis-*.jar' -o -path '*/target/classes' \) ! -name '*-sources.jar' ! -name '*-tests.jar' -printf '%p:')
java "$here/Signatures.java" touched "$here"/../{manager,ecm}/target/{classes,test-classes} >"$work/touched"
rm -rf "${here:?}/$version"
java "$here/Signatures.java" make "$here/$version" "$classpath" "$work/touched"
echo "$version: $(find "$here/$version" -name '*.txt' | wc -l) classes"
