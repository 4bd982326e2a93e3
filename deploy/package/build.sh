#!/usr/bin/env bash
# Builds packages: build.sh deb|rpm|tar… The same commit gives the same bytes: times are the
# commit's, owners are root, and what a machine would leave in a file is left out.
#
#   VERSION  that of the packages (default version.sh)         ARCHES  default "amd64 arm64"
#   OUT      where they go (default bin/packages)              NFPM    the program nfpm, for deb and rpm
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/../.."
here=deploy/package
export VERSION=${VERSION:-$($here/version.sh)}
SOURCE_DATE_EPOCH=${SOURCE_DATE_EPOCH:-$(git -c safe.directory='*' log -1 --format=%ct 2>/dev/null || echo 0)}
export SOURCE_DATE_EPOCH LC_ALL=C TZ=UTC
out=$(realpath -m "${OUT:-bin/packages}")
umask 022
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT

# program ARCH FOLDER PATH: a static program for Linux, of the package in a folder.
program() {
  CGO_ENABLED=0 GOOS=linux GOARCH=$1 go build -trimpath -buildvcs=false \
    -ldflags "-s -w -buildid= -X main.version=$VERSION" -o "$3" "./$2"
}

# file MODE SOURCE TARGET: a file of the tree.
file() { install -D -m "$1" "$2" "$3"; }

# completions FOLDER PROGRAM ROOT: what the shells read to complete a program's command line.
completions() {
  file 644 "$1/bash" "$3/usr/share/bash-completion/completions/$2"
  file 644 "$1/zsh" "$3/usr/share/zsh/vendor-completions/_$2"
  file 644 "$1/fish" "$3/usr/share/fish/vendor_completions.d/$2.fish"
}

# The manual pages of the commands and of the configuration, by programs that run here, whatever
# ARCH is.
CGO_ENABLED=0 go run -trimpath -tags man -ldflags "-X main.version=$VERSION" ./cmd/bursar \
  "$work/made"
go run -trimpath ./test/docs/manual -version "$VERSION" -out "$work/made/man" \
  -completion "$work/made/linkis"
gzip -9n "$work"/made/man/*
sed -e "s/@VERSION@/$VERSION/" -e "s/@DATE@/$(date -R -d "@$SOURCE_DATE_EPOCH")/" \
  $here/changelog.in | gzip -9n >"$work/changelog.Debian.gz"

# stage ARCH: everything below /, as it is installed, but for where the units go.
stage() {
  local arch=$1 root=$2 unit page section example
  program "$arch" cmd/bursar "$root/usr/bin/bursar"
  program "$arch" integrations/linkis/bursar-linkis-check "$root/usr/bin/bursar-linkis-check"
  program "$arch" cmd/bursar-keeper "$root/usr/libexec/bursar/bursar-keeper"
  # Only root can trace a program that its user cannot read, from its first instruction on: so the
  # agent can trust what it writes.
  chmod 711 "$root/usr/libexec/bursar/bursar-keeper"
  file 644 $here/agent.yaml "$root/etc/bursar/agent.yaml"
  file 644 $here/coordinator.yaml "$root/etc/bursar/coordinator.yaml"
  install -d -m 750 "$root/etc/bursar/credentials"
  for unit in deploy/systemd/bursar-*; do
    file 644 "$unit" "$root/lib/systemd/system/$(basename "$unit")"
  done
  file 644 deploy/systemd/sysusers.d/bursar.conf "$root/usr/lib/sysusers.d/bursar.conf"
  file 644 deploy/systemd/tmpfiles.d/bursar.conf "$root/usr/lib/tmpfiles.d/bursar.conf"
  for page in "$work"/made/man/*; do
    section=${page%.gz}
    file 644 "$page" "$root/usr/share/man/man${section##*.}/$(basename "$page")"
  done
  completions "$work/made/completion" bursar "$root"
  completions "$work/made/linkis" bursar-linkis-check "$root"
  for example in deploy/systemd/examples/*.conf examples/*.yaml examples/providers/*.sh; do
    file 644 "$example" "$root/usr/share/doc/bursar/examples/$(basename "$example")"
  done
  file 644 $here/copyright "$root/usr/share/doc/bursar/copyright"
  file 644 "$work/changelog.Debian.gz" "$root/usr/share/doc/bursar/changelog.Debian.gz"
  file 644 $here/lintian-overrides "$root/usr/share/lintian/overrides/bursar"
  find "$root" -exec touch -h -d "@$SOURCE_DATE_EPOCH" {} +
}

# archive ROOT FILE: the tree as a tar below one folder.
archive() {
  local name=${2##*/}
  tar --sort=name --owner=root:0 --group=root:0 --mtime="@$SOURCE_DATE_EPOCH" --format=gnu \
    --transform "s,^\.,${name%.tar.gz}," -C "$1" -cf - . | gzip -9n >"$2"
}

mkdir -p "$out"
rm -f "$out"/bursar*.{deb,rpm,tar.gz} "$out/SHA256SUMS"
for arch in ${ARCHES:-amd64 arm64}; do
  root=$work/$arch/root
  mkdir -p "$root"
  stage "$arch" "$root"
  for format in "$@"; do
    case $format in
      deb | rpm)
        cp $here/nfpm.yaml $here/scripts/* "$work/$arch/"
        chmod 755 "$work/$arch"/p{ost,re}*
        # Debian has no such field: its file copyright says it.
        [[ $format != deb ]] || sed -i '/^license:/d' "$work/$arch/nfpm.yaml"
        (cd "$work/$arch" &&
          ARCH=$arch "${NFPM:?}" package -f nfpm.yaml -p "$format" -t "$out" >/dev/null)
        ;;
      tar)
        archive "$root" "$out/bursar-$VERSION-linux-$arch.tar.gz"
        ;;
      *)
        echo "$0: $format: want deb, rpm or tar" >&2
        exit 64
        ;;
    esac
  done
done
cd "$out"
sha256sum bursar* >SHA256SUMS
printf 'programs %s:\n' "$VERSION"
for arch in ${ARCHES:-amd64 arm64}; do
  (cd "$work/$arch/root" &&
    du -b usr/bin/bursar usr/bin/bursar-linkis-check usr/libexec/bursar/bursar-keeper | sed "s/^/  $arch  /")
done
printf 'packages in %s:\n' "$out"
du -b bursar* | sed 's/^/  /'
