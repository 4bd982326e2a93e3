package systemd

import (
	"strings"
	"testing"
)

// The rules for a Debian package: installing starts nothing; configured services start and keep
// running; an upgrade keeps engines and configuration; removing keeps configuration and engines;
// purging leaves nothing; the package can be installed again.
func TestPackageThroughItsLife(t *testing.T) {
	t.Parallel()
	h := install(t, Container)

	t.Run("installing starts nothing", func(t *testing.T) {
		for _, unit := range []string{"bursar-agent.service", "bursar-agent.socket", "bursar-coordinator.service"} {
			if state := h.unit(t, unit, "ActiveState"); state != "inactive" {
				t.Errorf("%s is %s", unit, state)
			}
			if state := h.unit(t, unit, "UnitFileState"); state != "disabled" {
				t.Errorf("%s is %s", unit, state)
			}
		}
		if state := h.Must(t, "systemctl", "is-system-running"); state != "running" {
			t.Errorf("the system is %s", state)
		}
		h.Must(t, "dpkg", "--verify", "bursar")
		if audit := h.Must(t, "dpkg", "--audit"); audit != "" {
			t.Errorf("dpkg --audit: %s", audit)
		}
		if r := h.As(t, "alice", "bursar", "status"); r.Code != 69 {
			t.Errorf("status where nobody answers: %s", r)
		}
	})
	if t.Failed() {
		return
	}

	h.configure(t, "")
	t.Run("units come up", func(t *testing.T) {
		h.enable(t)
		for unit, kind := range map[string]string{"bursar-agent": "notify", "bursar-coordinator": "notify"} {
			if got := h.unit(t, unit, "Type"); got != kind {
				t.Errorf("%s is of type %s", unit, got)
			}
			if said := h.unit(t, unit, "StatusText"); said == "" {
				t.Errorf("%s does not say how it goes", unit)
			}
		}
		if got := h.Must(t, "stat", "-c", "%F %a %U:%G", socket); got != "socket 666 root:root" {
			t.Errorf("the socket is a %s", got)
		}
		for path, want := range map[string]string{
			"/var/lib/bursar/agent": "700 root:root", "/var/lib/bursar/coordinator": "700 bursar:bursar",
			"/var/log/bursar/engines": "755 root:root", "/etc/bursar/credentials": "750 root:bursar",
		} {
			if got := h.Must(t, "stat", "-c", "%a %U:%G", path); got != want {
				t.Errorf("%s is %s, want %s", path, got, want)
			}
		}
		if user := h.Shell(t, "ps -o user= -p $(systemctl show -p MainPID --value bursar-coordinator)"); user != "bursar" {
			t.Errorf("the coordinator runs as %s", user)
		}
		if r := h.As(t, "alice", "bursar", "status"); r.Code != 0 {
			t.Errorf("status: %s", r)
		}
	})
	if t.Failed() {
		return
	}

	foreground := h.run(t, "sleep", "1000")
	launched := h.launch(t, engine{user: "bob"})
	engines := pids(foreground.allocation, launched)
	keeps := func(t *testing.T) {
		t.Helper()
		for _, pid := range engines {
			if !h.lives(t, pid) {
				t.Errorf("engine %d has ended", pid)
			}
		}
	}

	t.Run("an upgrade restarts what runs and keeps engines", func(t *testing.T) {
		agent, coordinator := h.pid(t, "bursar-agent"), h.pid(t, "bursar-coordinator")
		h.Must(t, "dpkg", "--force-confold", "-i", "/opt/test/newer.deb")
		h.awaitAnother(t, h.soon(), "bursar-agent", agent)
		h.awaitAnother(t, h.soon(), "bursar-coordinator", coordinator)
		if version := h.Must(t, "dpkg-query", "-W", "-f", "${Version}", "bursar"); version != "1.1.0-1" {
			t.Errorf("version %s is installed", version)
		}
		if content := h.Must(t, "cat", "/etc/bursar/agent.yaml"); content != strings.TrimSpace(agentYAML) {
			t.Errorf("the file of the administrator has become %q", content)
		}
		h.ready(t)
		keeps(t)
		for _, id := range []string{foreground.id(), launched.GetId()} {
			h.await(t, h.soon(), id, "it is active after the upgrade", active)
		}
		if all := h.allocations(t); len(all) != 2 {
			t.Errorf("the ledger has %v", all)
		}
	})

	t.Run("removing keeps engines and configuration", func(t *testing.T) {
		h.Must(t, "dpkg", "--remove", "bursar")
		for _, unit := range []string{"bursar-agent.service", "bursar-agent.socket", "bursar-coordinator.service"} {
			if state := h.unit(t, unit, "ActiveState"); state != "inactive" {
				t.Errorf("%s is %s", unit, state)
			}
		}
		keeps(t)
		h.Must(t, "test", "-f", "/etc/bursar/agent.yaml")
		h.Must(t, "test", "-d", "/var/lib/bursar/coordinator")
		if r := h.As(t, "", "test", "-e", socket); r.Code == 0 {
			t.Error("the socket is still there")
		}
	})

	t.Run("and installing again finds them", func(t *testing.T) {
		h.Must(t, "dpkg", "-i", "/opt/test/newer.deb")
		h.Must(t, "systemctl", "start", "bursar-coordinator", "bursar-agent")
		h.ready(t)
		keeps(t)
		for _, id := range []string{foreground.id(), launched.GetId()} {
			h.await(t, h.soon(), id, "it is active again", active)
		}
	})

	// The foreground engine ends before its agent has ended.
	h.Must(t, "kill", itoa(foreground.allocation.GetProcess().GetPid()))
	foreground.wait(t)
	engines = pids(launched)
	t.Run("purging removes what is ours and ends nobody", func(t *testing.T) {
		r := h.As(t, "", "dpkg", "--purge", "bursar")
		if r.Code != 0 {
			t.Fatalf("purge: %s", r)
		}
		if !strings.Contains(r.Output+r.Errors, "engines are still running") {
			t.Errorf("purge does not say that engines run: %s", r)
		}
		keeps(t)
		for _, path := range []string{"/etc/bursar", "/run/bursar", "/var/lib/bursar/coordinator", "/usr/bin/bursar", "/usr/libexec/bursar"} {
			if r := h.As(t, "", "test", "-e", path); r.Code == 0 {
				t.Errorf("%s is still there", path)
			}
		}
	})

	t.Run("purging without engines leaves nothing", func(t *testing.T) {
		for _, pid := range engines {
			h.Must(t, "kill", itoa(pid))
		}
		h.Await(t, h.soon(), "! grep -q bursar-engine /proc/[0-9]*/cgroup")
		h.Must(t, "dpkg", "-i", "/opt/test/bursar.deb")
		h.configure(t, "")
		h.enable(t)
		h.Must(t, "dpkg", "--purge", "bursar")
		left := h.Shell(t, `find / -xdev \( -path /proc -o -path /sys -o -path /opt/test -o -path /var/log/journal -o -path /run/log \) -prune -o -name '*bursar*' -print`)
		for _, path := range lines(left) {
			// Units of engines: systemd forgets them by itself.
			if !strings.HasPrefix(path, "/run/systemd/") {
				t.Errorf("%s is left", path)
			}
		}
		if state := h.Must(t, "systemctl", "is-system-running"); state != "running" {
			t.Errorf("the system is %s: %s", state, h.Must(t, "systemctl", "--failed", "--no-legend"))
		}
	})
}
