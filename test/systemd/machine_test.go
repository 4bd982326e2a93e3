package systemd

import (
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
