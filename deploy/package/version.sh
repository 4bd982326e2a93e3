#!/usr/bin/env bash
# Prints the version of this tree's packages, in Debian's order: that of this commit's tag (v1.2.3,
# v1.3.0-rc.1), else the last tag's and the time of the commit, else 0.0~ and the time. The time
# comes first, so that a later commit has a later version.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/../.."
git() { command git -c safe.directory='*' "$@"; }

if ! git rev-parse -q --verify HEAD >/dev/null 2>&1; then
  echo 0.0~unknown # no checkout
  exit
fi
commit=$(TZ=UTC git log -1 --date=format-local:%Y%m%d%H%M%S --format=git%cd.%h --abbrev=7)
if tag=$(git describe --tags --match 'v[0-9]*' --abbrev=0 2>/dev/null); then
  version=${tag#v}
  version=${version/-/\~}
  [[ $(git describe --tags --match 'v[0-9]*') == "$tag" ]] || version+=+$commit
else
  version=0.0~$commit
fi
[[ -z $(git status --porcelain --untracked-files=no) ]] || version+=.dirty
echo "${version//-/.}"
