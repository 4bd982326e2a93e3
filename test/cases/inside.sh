#!/usr/bin/env bash
# The first process in the namespaces of one case: see run.sh. It gives the case a /proc, a loopback,
# an /etc with accounts of its own, and runs it. All that the case started ends with this process.
# It waits for the orphans of a case, as an init does.
set -euo pipefail

mount --make-rprivate /
mount -t proc proc /proc
mount -t tmpfs -o mode=1777 tmpfs /dev/shm
ip link set lo up
mkdir -p "$WORK"
chmod 755 "$WORK"
mkdir -m 1777 "$WORK/tmp"
export TMPDIR=$WORK/tmp

# The accounts. One is named by the digits of alice's user id, and is somebody else. An account of
# this machine with one of the ids is left out: a user id with two names goes by the first.
rm -rf "$BASE/etc"
cp -a /etc "$BASE/etc" || true # without what a package manager renames just now
mount --bind "$BASE/etc" /etc
while read -r name uid; do
  home=$WORK/home/$name
  sed -i "/^[^:]*:[^:]*:$uid:/d" /etc/passwd
  echo "$name:x:$uid:$uid::$home:/bin/sh" >>/etc/passwd
  echo "$name:x:$uid:" >>/etc/group
  mkdir -p "$home"
  chown "$uid:$uid" "$home"
done <<'ACCOUNTS'
mallory 61001
alice 61002
bob 61003
trusted 61005
61002 61009
ACCOUNTS
echo mallory:700000:65536 >>/etc/subuid
echo mallory:700000:65536 >>/etc/subgid
hash -r

cd "$WORK"
bash "$CASES/$1.sh"
