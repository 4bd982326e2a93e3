#!/usr/bin/env bash
# Makes sure that this machine has a PostgreSQL server and a PgBouncer for the tests, in the places
# where test/postgres looks: it installs Debian's if there is none and it may.
set -euo pipefail

shopt -s nullglob
on_path=$(dirname "$(readlink -f "$(command -v postgres || echo /none)")")
missing=(postgresql)
for dir in ${PG_BIN:+"$PG_BIN"} /usr/lib/postgresql/*/bin /usr/pgsql-*/bin /usr/local/pgsql/bin \
  "$on_path"; do
  if [[ -x $dir/initdb && -x $dir/postgres ]]; then
    echo "PostgreSQL: $("$dir/postgres" --version) in $dir"
    missing=()
    break
  fi
done
bouncer=$(PATH=$PATH:/usr/sbin command -v pgbouncer || true)
if [[ -n $bouncer ]]; then
  echo "PgBouncer: $bouncer"
else
  missing+=(pgbouncer)
fi
if [[ ${#missing[@]} == 0 ]]; then
  exit 0
fi

if ! command -v apt-get >/dev/null; then
  echo "PostgreSQL: not found: ${missing[*]}, and this is no Debian: install a PostgreSQL server" \
    "and PgBouncer, or set PG_BIN to the directory of the server's programs" >&2
  exit 1
fi
if [[ $(id -u) != 0 ]]; then
  echo "PostgreSQL: not found: run as root:" \
    "apt-get update && apt-get install -y ${missing[*]}" >&2
  exit 1
fi
export DEBIAN_FRONTEND=noninteractive
# The package starts a server of its own, which nobody asked for: without this file's say it would.
policy=/usr/sbin/policy-rc.d
if [[ ! -e $policy ]]; then
  printf '#!/bin/sh\nexit 101\n' >"$policy"
  chmod 755 "$policy"
  trap 'rm -f "$policy"' EXIT
fi
apt-get update -q || true # what it knows already may do
apt-get -o DPkg::Lock::Timeout=600 install -y -q --no-install-recommends "${missing[@]}"
ls /usr/lib/postgresql/*/bin/postgres /usr/sbin/pgbouncer
