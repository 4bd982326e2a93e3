package systemd

import (
	"strings"
	"testing"
	"time"
)

// What the other tests build on: systemd is up in both kinds of machine, and limits what it is told to limit.
func TestMachinesBootAndLimit(t *testing.T) {
	for _, kind := range []Kind{Container, Virtual} {
		t.Run(string(kind), func(t *testing.T) {
			m := Start(t, Options{Kind: kind})
			m.Await(t, 30*time.Second, "systemctl is-system-running")
			t.Log(m.Must(t, "systemctl", "--failed", "--no-legend"))

			if r := m.As(t, "", "systemd-run", "--pipe", "--wait", "-q", "-p", "MemoryMax=50M", "/opt/test/inside", "hold", "200"); r.Code == 0 {
				t.Errorf("an engine of 200 MiB has room in 50: %s", r)
			}
			m.Must(t, "useradd", "--create-home", "--base-dir", "/srv", "alice")
			if r := m.As(t, "alice", "sh", "-c", "id -un; cd; pwd; cat; exit 3"); r.Code != 3 || r.Output != "alice\n/srv/alice\n" {
				t.Errorf("as a user: %s", r)
			}
		})
	}
}

func TestVirtualMachineIsItsOwn(t *testing.T) {
	m := Start(t, Options{Kind: Virtual})
	boot := m.Must(t, "cat", "/proc/sys/kernel/random/boot_id")
	m.Write(t, "/var/tmp/kept", "content")
	m.Must(t, "sync")
	m.Reboot(t)
	if again := m.Must(t, "cat", "/proc/sys/kernel/random/boot_id"); again == boot {
		t.Error("the boot id is the same after a reboot")
	}
	m.Reset(t)
	if content := m.Must(t, "cat", "/var/tmp/kept"); content != "content" {
		t.Errorf("after a reset the file holds %q", content)
	}
	m.Must(t, "date", "-s", "+1 hour")
	if controllers := m.Must(t, "cat", "/sys/fs/cgroup/cgroup.controllers"); !strings.Contains(controllers, "memory") {
		t.Errorf("controllers: %s", controllers)
	}
	m.Must(t, "cat", "/proc/pressure/memory")
}
