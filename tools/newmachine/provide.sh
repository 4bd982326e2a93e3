#!/usr/bin/env bash
# Makes sure that there is a new Debian with git, make and gcc and nothing else that the project
# needs, for .ci/new-machine: .cache/tools/new-RELEASE-HASH, by debootstrap. HASH is that of this
# script. The last line that it prints is the folder.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/../.."

release=bookworm
packages=ca-certificates,gcc,git,libc6-dev,make

say() { echo "new machine: $*" >&2; }
[[ $(id -u) == 0 ]] || { say 'a root is made as root: run this as root'; exit 1; }

mkdir -p .cache/tools
exec 9>.cache/tools/newmachine.lock # two of these at once would make the same thing
flock 9

if ! command -v debootstrap >/dev/null; then
  command -v apt-get >/dev/null || { say 'install debootstrap: this is no Debian'; exit 1; }
  apt-get update -q >&2 || true # what it knows already may do
  DEBIAN_FRONTEND=noninteractive apt-get -o DPkg::Lock::Timeout=600 install -y -q --no-install-recommends debootstrap >&2
fi

place=.cache/tools/new-$release-$(sha256sum tools/newmachine/provide.sh | cut -c1-12)
if [[ ! -d $place ]]; then
  say "makes a Debian $release with git, make and gcc (100 MB, minutes the first time)"
  rm -rf .cache/tools/.new.*
  new=$(mktemp -d .cache/tools/.new.XXXXXX)
  trap 'rm -rf "$new"' EXIT
  mirror=$(apt-get indextargets --format '$(REPO_URI)' "Codename: $release" 'Identifier: Packages' 2>/dev/null | head -n 1 || true)
  debootstrap --variant=minbase --include="$packages" "$release" "$new/root" ${mirror:+"$mirror"} >"$new/log" 2>&1 </dev/null || {
    tail -n 20 "$new/log" "$new/root/debootstrap/debootstrap.log" >&2 2>/dev/null || true
    say 'debootstrap failed'
    exit 1
  }
  rm -rf "$new/root"/var/cache/apt/*
  chmod 755 "$new/root"
  rm -rf .cache/tools/new-"$release"-*
  mv -T "$new/root" "$place"
fi
echo "$place"
