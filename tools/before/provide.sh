#!/usr/bin/env bash
# Downloads the modules of the old versions that tests build, so that tests need no network: the
# version before (test/ha/before_test.go). Its go.mod and go.sum say which. A version may need a
# module that has left go.mod since. `provide.sh --list` prints the commits.
#
# Without its commit nothing is downloaded: the tests that build it say how to get it.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/../.."

git() { command git -c safe.directory='*' "$@"; }

commits=$(sed -nE 's/^\s*beforeCommit = "([0-9a-f]{40})".*/\1/p' test/ha/before_test.go)
[[ -n $commits ]] || { echo 'before: test/ha/before_test.go names no beforeCommit' >&2; exit 1; }
if [[ ${1:-} == --list ]]; then
  echo "$commits"
  exit
fi
for commit in $commits; do
  if ! git cat-file -e "$commit^{commit}" 2>/dev/null; then
    echo "before: commit $commit is not in this clone: nothing of it is downloaded" >&2
    continue
  fi
  tree=$(mktemp -d)
  trap 'rm -rf "$tree"' EXIT
  git show "$commit:go.mod" >"$tree/go.mod"
  git show "$commit:go.sum" >"$tree/go.sum"
  GOWORK=off go -C "$tree" mod download
  rm -rf "$tree"
  trap - EXIT
done
