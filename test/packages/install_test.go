package packages

import (
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"testing"
)

// tree is what every scenario begins with: a copy of this machine's tree at $tree that is gone
// with its namespaces, in which Bursar was never installed and no systemd runs. "inside COMMAND…"
// runs a command in it; the packages are in /packages.
const tree = `
mount -t tmpfs none "$work"
mkdir "$work"/{upper,lower,tree}
tree=$work/tree
mount -t overlay none -o "lowerdir=/,upperdir=$work/upper,workdir=$work/lower" "$tree"
mount -t proc none "$tree/proc"
mount -t tmpfs none "$tree/run"
inside() { env -i PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin LC_ALL=C.UTF-8 DEBIAN_FRONTEND=noninteractive chroot "$tree" "$@"; }
inside userdel bursar 2>/dev/null || true
rm -rf "$tree"/etc/bursar "$tree"/var/{lib,log}/bursar "$tree"/usr/sbin/policy-rc.d
rm -f "$tree/var/lib/man-db/auto-update" # its index of all pages of this machine is no business of ours
mkdir "$tree/packages"
cp "$deb" "$tree/packages/bursar.deb"
cp "$rpm" "$tree/packages/bursar.rpm"
fail() { echo "FAILED: $*"; exit 1; }
is() { [[ $1 == "$2" ]] || fail "$1, want $2"; }
owner() { inside stat -c '%A %U:%G' "$1"; }
# newer makes /packages/newer.deb of a later version, with another agent.yaml.
newer() {
  dpkg-deb -R "$deb" "$work/newer"
  sed -i 's/^Version: .*/Version: 9999-1/' "$work/newer/DEBIAN/control"
  echo '# of the new version' >>"$work/newer/etc/bursar/agent.yaml"
  dpkg-deb --root-owner-group -Zgzip -z1 -b "$work/newer" "$tree/packages/newer.deb"
}
# systemd lets the scripts believe that it runs: what they ask of it is written to /calls, one line each.
systemd() {
  mkdir -p "$tree/run/systemd/system"
  : >"$tree/calls"
  for program in systemctl deb-systemd-invoke; do
    printf '#!/bin/sh\necho "%s $*" >>/calls\n[ "$1" != is-active ] || cat "/state.$2"\n[ "$1 $2" != "$(cat /fails)" ]\n' $program >"$tree/usr/bin/new"
    chmod 755 "$tree/usr/bin/new"
    mv "$tree/usr/bin/new" "$tree/usr/bin/$program"
  done
  echo inactive >"$tree/state.bursar-agent.service"
  echo inactive >"$tree/state.bursar-coordinator.service"
  : >"$tree/fails"
}
# calls prints what was asked, but for questions, and forgets it.
calls() { grep -v is-active "$tree/calls" | sed 's/^deb-systemd-invoke\|^systemctl//; s/ --system//' | tr -s '\n ' ' '; : >"$tree/calls"; }
`

// scenario runs a script in a tree of its own.
func scenario(t *testing.T, script string) {
	t.Helper()
	if os.Geteuid() != 0 {
		t.Fatal("needs root, to install packages in a tree of its own")
	}
	cmd := exec.CommandContext(t.Context(), "unshare", "--mount", "--pid", "--fork", "--kill-child", "--mount-proc", "--propagation", "private", "bash", "-euo", "pipefail", "-c", tree+script)
	cmd.Env = append(os.Environ(), "work="+t.TempDir(), "deb="+absolute(t, built.deb(runtime.GOARCH)), "rpm="+absolute(t, built.rpm(runtime.GOARCH)))
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Errorf("%v\n%s", err, out)
	}
}

func absolute(t *testing.T, name string) string {
	t.Helper()
	path, err := filepath.Abs(name)
	if err != nil {
		t.Fatal(err)
	}
	return path
}

func TestLifeOfThePackageWithoutSystemd(t *testing.T) {
	scenario(t, `
inside dpkg -i /packages/bursar.deb
is "$(owner /etc/bursar/credentials)" 'drwxr-x--- root:bursar'
is "$(owner /run/bursar)" 'drwxr-xr-x root:root'
is "$(owner /var/log/bursar/engines)" 'drwxr-xr-x root:root'
is "$(inside getent passwd bursar | cut -d: -f6-)" /var/lib/bursar/coordinator:/usr/sbin/nologin
inside bursar version >/dev/null
[[ -z $(find "$tree/etc/systemd/system" -name 'bursar*') ]] || fail 'something is enabled'

# Once more, and the maintainer scripts alone: nothing changes.
chmod 0700 "$tree/etc/bursar/credentials"
inside dpkg -i /packages/bursar.deb
inside /var/lib/dpkg/info/bursar.postinst configure
is "$(owner /etc/bursar/credentials)" 'drwx------ root:bursar'

# An upgrade keeps what was changed, and what runs: the keeper waits for what it is to do.
echo 'hostId: kept' >>"$tree/etc/bursar/agent.yaml"
mkfifo "$work/order"
exec 7<>"$work/order"
chroot "$tree" /usr/libexec/bursar/bursar-keeper <&7 >/dev/null 2>&1 &
keeper=$!
for ((i = 0; i < 10000; i++)); do [[ $(readlink /proc/$keeper/exe) != *bursar-keeper ]] || break; done
kill -0 $keeper || fail 'the keeper does not wait for what it is to do'
newer
inside dpkg --force-confold -i /packages/newer.deb
is "$(inside dpkg-query -W -f '${Version}' bursar)" 9999-1
grep -q '^hostId: kept' "$tree/etc/bursar/agent.yaml" || fail 'a changed file was replaced'
kill -0 $keeper || fail 'the keeper was ended by an upgrade'

mkdir -p "$tree/var/lib/bursar/agent" "$tree/etc/systemd/system/multi-user.target.wants"
touch "$tree/var/lib/bursar/agent/state" "$tree/var/log/bursar/engines/log"
ln -s /lib/systemd/system/bursar-agent.service "$tree/etc/systemd/system/multi-user.target.wants/"
inside dpkg -r bursar
kill -0 $keeper || fail 'the keeper was ended by a removal'
[[ ! -e $tree/usr/bin/bursar ]] || fail 'not removed'
for kept in etc/bursar/agent.yaml var/lib/bursar/agent/state var/log/bursar/engines/log; do [[ -e $tree/$kept ]] || fail "$kept was removed"; done

inside dpkg -P bursar
for gone in etc/bursar var/lib/bursar var/log/bursar run/bursar etc/systemd/system/multi-user.target.wants/bursar-agent.service; do
  [[ ! -e $tree/$gone && ! -L $tree/$gone ]] || fail "$gone is left"
done
inside getent passwd bursar >/dev/null || fail 'the account was removed'
inside dpkg -i /packages/bursar.deb
is "$(owner /etc/bursar/credentials)" 'drwxr-x--- root:bursar'
exec 7>&-
kill $keeper
`)
}

func TestPurgeKeepsWhatRunningEnginesNeed(t *testing.T) {
	scenario(t, `
inside dpkg -i /packages/bursar.deb
mkdir -p "$tree"/var/lib/bursar/{agent,coordinator}
# An engine: a process that is in such a cgroup, as far as /proc tells.
sleep infinity &
engine=$!
echo '0::/bursar.slice/bursar-engines.slice/bursar-engine-a1.service' >"$work/cgroup"
mount --bind "$work/cgroup" "$tree/proc/$engine/cgroup"
touch "$tree/var/log/bursar/engines/log"
said=$(inside dpkg -P bursar 2>&1)
[[ $said == *'engines are still running'* ]] || fail "not told: $said"
[[ -e $tree/var/log/bursar/engines/log && -d $tree/var/lib/bursar/agent ]] || fail 'logs or records are gone'
[[ ! -e $tree/var/lib/bursar/coordinator && ! -e $tree/etc/bursar ]] || fail 'the rest is left'
`)
}

func TestNoUserKeepsAPackageFromBeingPurged(t *testing.T) {
	scenario(t, `
inside dpkg -i /packages/bursar.deb
# A mount of a user, in the folder for the output of their engine.
mkdir "$tree/var/log/bursar/engines/a1"
mount -t tmpfs none "$tree/var/log/bursar/engines/a1"
said=$(inside dpkg -P bursar 2>&1) || fail "$said"
[[ $said == *'something is left of: /var/lib/bursar /var/log/bursar'* ]] || fail "not told: $said"
umount "$tree/var/log/bursar/engines/a1"
[[ ! -e $tree/var/lib/bursar && ! -e $tree/etc/bursar ]] || fail 'the rest is left'
`)
}

func TestInstallWhereSystemdIsNotInstalled(t *testing.T) {
	scenario(t, `
rm -f "$tree"/usr/bin/systemd-{sysusers,tmpfiles}
inside dpkg -i /packages/bursar.deb
is "$(inside getent passwd bursar | cut -d: -f6-)" /var/lib/bursar/coordinator:/usr/sbin/nologin
is "$(owner /etc/bursar/credentials)" 'drwxr-x--- root:bursar'
is "$(owner /var/log/bursar/engines)" 'drwxr-xr-x root:root'
is "$(owner /run/bursar)" 'drwxr-xr-x root:root'
inside dpkg -P bursar

# A systemd whose programs cannot do it, as in a chroot without /proc.
umount "$tree/proc"
inside dpkg -i /packages/bursar.deb
is "$(owner /var/log/bursar/engines)" 'drwxr-xr-x root:root'
`)
}

func TestUnitsAreRestartedByAnUpgradeAndStoppedByARemoval(t *testing.T) {
	scenario(t, `
systemd
inside dpkg -i /packages/bursar.deb
is "$(calls)" ' daemon-reload '

# Nothing runs: nothing is started.
newer
inside dpkg -i /packages/newer.deb
is "$(calls)" ' daemon-reload '

# What runs is restarted, after the new programs are there, and never stopped before.
echo active >"$tree/state.bursar-agent.service"
inside dpkg -i /packages/newer.deb
is "$(calls)" ' daemon-reload restart bursar-agent.service '

# If one does not start again, that is reported, and the package is not left half configured.
echo active >"$tree/state.bursar-coordinator.service"
echo 'restart bursar-coordinator.service' >"$tree/fails"
said=$(inside dpkg -i /packages/newer.deb 2>&1)
[[ $said == *'bursar-coordinator.service did not start again'* ]] || fail "not told: $said"
is "$(inside dpkg-query -W -f '${db:Status-Status}' bursar)" installed
is "$(calls)" ' daemon-reload restart bursar-coordinator.service restart bursar-agent.service '

inside dpkg -r bursar
is "$(calls)" ' stop bursar-agent.socket stop bursar-agent.service stop bursar-coordinator.service daemon-reload '
inside dpkg -P bursar
is "$(calls)" ' daemon-reload '
`)
}

func TestLifeOfTheRPM(t *testing.T) {
	scenario(t, `
systemd
rm "$tree/usr/bin/deb-systemd-invoke"
rpm() { inside rpm --dbpath /rpm --force-debian "$@"; }
rpm -i --nodeps /packages/bursar.rpm
is "$(calls)" ' daemon-reload '
is "$(owner /etc/bursar/credentials)" 'drwxr-x--- root:bursar'
inside bursar version >/dev/null
[[ -e $tree/usr/lib/systemd/system/bursar-agent.service ]] || fail 'no unit'

# What rpm calls scripts with in an upgrade: the number of versions that are installed then.
echo active >"$tree/state.bursar-agent.service"
scripts() { inside rpm --dbpath /rpm -q --qf "%{$1}" bursar >"$tree/script"; inside sh /script "$2"; }
scripts POSTIN 2
scripts PREUN 1
scripts POSTUN 1
is "$(calls)" ' daemon-reload restart bursar-agent.service '

echo 'hostId: kept' >>"$tree/etc/bursar/agent.yaml"
rpm -e --nodeps bursar
is "$(calls)" ' stop bursar-agent.socket stop bursar-agent.service stop bursar-coordinator.service daemon-reload '
grep -q '^hostId: kept' "$tree/etc/bursar/agent.yaml.rpmsave" || fail 'a changed file was removed'
[[ ! -e $tree/usr/bin/bursar && -d $tree/var/log/bursar ]] || fail 'removed too little or too much'
`)
}

func TestMaintainerScriptsRefuseWhatTheyDoNotKnow(t *testing.T) {
	for _, name := range []string{"postinst", "prerm", "postrm"} {
		script := filepath.Join(root, "deploy/package/scripts", name)
		out, err := exec.CommandContext(t.Context(), "sh", script, "dance").CombinedOutput()
		if err == nil || !strings.Contains(string(out), "dance") {
			t.Errorf("%s dance: %v, %s", name, err, out)
		}
		output(t, "dash", "-n", script)
	}
}
