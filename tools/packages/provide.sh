#!/usr/bin/env bash
# Makes sure that this machine has what looks at packages and units in make lint and make
# test-packages: systemd-analyze, lintian, rpm, man with groff, and dpkg. Installs Debian's if
# one is missing, if it may.
set -euo pipefail

declare -A package=([systemd-analyze]=systemd [lintian]=lintian [rpm]=rpm [rpm2cpio]=rpm2cpio
  [man]=man-db [groff]=groff-base [dpkg-deb]=dpkg [xz]=xz-utils)
missing=()
for program in "${!package[@]}"; do
  command -v "$program" >/dev/null || missing+=("${package[$program]}")
done
if ((${#missing[@]} == 0)); then
  echo "packages: $(dpkg --version | head -1), $(systemd-analyze --version | head -1)," \
    "$(lintian --version), $(rpm --version)"
  exit 0
fi
if ! command -v apt-get >/dev/null; then
  echo "packages: ${missing[*]} not found, and this is no Debian: install them" >&2
  exit 1
fi
if [[ $(id -u) != 0 ]]; then
  echo "packages: not found; run as root: apt-get update && apt-get install -y ${missing[*]}" >&2
  exit 1
fi
export DEBIAN_FRONTEND=noninteractive
apt-get update -q || true # what it knows already may do
apt-get -o DPkg::Lock::Timeout=600 install -y -q --no-install-recommends "${missing[@]}"
