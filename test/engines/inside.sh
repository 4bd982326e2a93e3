#!/usr/bin/env bash
# The first process in the namespaces of run.sh: it has processes, a loopback and accounts of its
# own. All engines end with it.
set -euo pipefail
mount --make-rprivate /
mount -t proc proc /proc
mount -t tmpfs -o mode=1777 tmpfs /dev/shm
mount --bind "$PLACE" "$ENGINES_PLACE"
ip link set lo up

base=$(dirname "$ENGINES_HERE")
cp -a /etc "$base/etc" || true # without what a package manager renames just now
mount --bind "$base/etc" /etc
echo '127.0.0.1 localhost engines' >/etc/hosts
hostname engines
while read -r name uid; do
  echo "$name:x:$uid:$uid::$base/home/$name:/bin/sh" >>/etc/passwd
  echo "$name:x:$uid:" >>/etc/group
  mkdir -p "$base/home/$name"
  chown "$uid:$uid" "$base/home/$name"
done <<'ACCOUNTS'
ada 61010
hub 61011
ACCOUNTS
ENGINES_SITE=$(echo "$ENGINES_PLACE"/lib/python3*/site-packages)
export ENGINES_SITE
mkdir -p "$ENGINES_FOLDER"
cd "$ENGINES_FOLDER"
/usr/bin/python3 "$ENGINES_HERE/engines.py"
