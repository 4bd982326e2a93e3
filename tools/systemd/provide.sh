#!/usr/bin/env bash
# Makes sure that this machine has what test/systemd boots: systemd-nspawn, qemu, and a small Debian with systemd and a kernel, as
# .cache/tools/debian-RELEASE-HASH/{tree,image,kernel}. HASH is that of this script: what it makes is kept until it is changed. All of it
# comes from Debian's packages, by debootstrap and from where apt gets them on this machine.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/../.."

release=bookworm
# What a server has: dbus and udev, procps for kill and sysctl, kmod for the modules of the kernel.
packages=systemd,systemd-sysv,dbus,udev,procps,kmod,linux-image-cloud-amd64

say() { echo "systemd: $*" >&2; }

if [[ $(id -u) != 0 ]]; then
  say "a machine is booted as root; run this as root too"
  exit 1
fi
if [[ $(uname -m) != x86_64 ]]; then
  say "the machines here are of amd64, this one is $(uname -m)"
  exit 1
fi

mkdir -p .cache/tools
exec 9>.cache/tools/systemd.lock # two of these at once would install the same things
flock 9

missing=()
need() { command -v "$1" >/dev/null || missing+=("$2"); }
need debootstrap debootstrap
need systemd-nspawn systemd-container
need qemu-system-x86_64 qemu-system-x86
need mkfs.ext4 e2fsprogs
need unshare util-linux
if ((${#missing[@]})); then
  if ! command -v apt-get >/dev/null; then
    say "missing: ${missing[*]} (Debian's names), and this is no Debian: install them"
    exit 1
  fi
  say "installs ${missing[*]}"
  apt-get update -q >&2 || true # what it knows already may do
  DEBIAN_FRONTEND=noninteractive apt-get -o DPkg::Lock::Timeout=600 install -y -q --no-install-recommends "${missing[@]}" >&2
fi

place=.cache/tools/debian-$release-$(sha256sum tools/systemd/provide.sh | cut -c1-12)
if [[ ! -d $place ]]; then
  say "makes a Debian $release (a minute the first time)"
  rm -rf .cache/tools/.debian.*
  new=$(mktemp -d ".cache/tools/.debian.XXXXXX")
  trap 'rm -rf "$new"' EXIT
  tree=$new/tree
  mirror=$(apt-get indextargets --format '$(REPO_URI)' 'Codename: '"$release" 'Identifier: Packages' 2>/dev/null | head -n 1 || true)
  # A machine with its own driver for the disk needs no initramfs.
  if ! INITRD=No debootstrap --variant=minbase --include="$packages" "$release" "$tree" ${mirror:+"$mirror"} >"$new/log" 2>&1 </dev/null; then
    tail -n 20 "$new/log" "$tree/debootstrap/debootstrap.log" >&2 2>/dev/null || true
    say "debootstrap failed"
    exit 1
  fi
  mv "$tree"/boot/vmlinuz-* "$new/kernel"
  rm -rf "$tree"/boot/* "$tree"/var/cache/apt/* "$tree"/var/lib/apt/lists/* "$tree"/usr/share/{doc,locale,man}/* "$new/log"

  echo bursar-test >"$tree/etc/hostname"
  printf '127.0.0.1 localhost bursar-test\n' >"$tree/etc/hosts"
  : >"$tree/etc/machine-id" # every boot makes its own
  chroot "$tree" passwd -q -d root # who looks at a machine logs in at its console
  mkdir -p "$tree/etc/systemd/journald.conf.d" "$tree/opt/test"
  printf '[Journal]\nStorage=volatile\nRateLimitBurst=0\n' >"$tree/etc/systemd/journald.conf.d/test.conf"
  # Nothing that wakes up by itself, and nothing of the network: there is none.
  chroot "$tree" systemctl -q mask apt-daily.timer apt-daily-upgrade.timer e2scrub_all.timer e2scrub_reap.service fstrim.timer \
    dpkg-db-backup.timer systemd-timesyncd.service systemd-networkd.service systemd-pstore.service

  # What the test hands in. A container has it by a bind mount, a virtual machine as its second disk.
  cat >"$tree/etc/systemd/system/opt-test.mount" <<'UNIT'
[Unit]
ConditionVirtualization=!container

[Mount]
What=/dev/nvme1n1
Where=/opt/test
Type=ext4
Options=ro

[Install]
WantedBy=local-fs.target
UNIT
  # What carries out the commands of a test, see test/systemd/inside. What it has started outlives it.
  cat >"$tree/etc/systemd/system/inside.service" <<'UNIT'
[Unit]
RequiresMountsFor=/opt/test
StartLimitIntervalSec=0

[Service]
Type=exec
ExecStart=/opt/test/inside
KillMode=process
OOMScoreAdjust=-1000
LimitNOFILE=65536
Restart=always
RestartSec=200ms

[Install]
WantedBy=multi-user.target
UNIT
  chroot "$tree" systemctl -q enable opt-test.mount inside.service

  truncate -s 3G "$new/image"
  mkfs.ext4 -q -d "$tree" -E lazy_itable_init=0,lazy_journal_init=0 "$new/image"
  chmod 755 "$new"
  rm -rf .cache/tools/debian-"$release"-*
  mv -T "$new" "$place"
  trap - EXIT
fi
echo "systemd: Debian $release in $place, $(systemd-nspawn --version | head -n 1), $(qemu-system-x86_64 --version | head -n 1)"
