#!/usr/bin/env bash
# Makes sure that this machine has what test/cases calls: python3, curl, gcc, ip, newuidmap,
# pgbouncer, psql and what makes namespaces. Installs Debian's if one is missing, if it may.
set -euo pipefail

declare -A package=([/usr/bin/python3]=python3 [curl]=curl [gcc]=gcc [ip]=iproute2 [newuidmap]=uidmap
  [pgbouncer]=pgbouncer [psql]=postgresql-client [unshare]=util-linux [setpriv]=util-linux)
missing=()
export PATH=$PATH:/usr/local/sbin:/usr/sbin:/sbin
for program in "${!package[@]}"; do
  command -v "$program" >/dev/null || missing+=("${package[$program]}")
done
if ((${#missing[@]} == 0)); then
  echo "cases: $(/usr/bin/python3 --version), $(pgbouncer --version | head -n 1)"
  exit 0
fi
if ! command -v apt-get >/dev/null; then
  echo "cases: ${missing[*]} not found, and this is no Debian: install them" >&2
  exit 1
fi
if [[ $(id -u) != 0 ]]; then
  echo "cases: not found; run as root: apt-get update && apt-get install -y ${missing[*]}" >&2
  exit 1
fi
# pgbouncer's package would start a server of its own.
policy=/usr/sbin/policy-rc.d
if [[ ! -e $policy ]]; then
  printf '#!/bin/sh\nexit 101\n' >"$policy"
  chmod 755 "$policy"
  trap 'rm -f "$policy"' EXIT
fi
export DEBIAN_FRONTEND=noninteractive
apt-get update -q || true # what it knows already may do
apt-get -o DPkg::Lock::Timeout=600 install -y -q --no-install-recommends "${missing[@]}"
