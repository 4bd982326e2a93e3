package systemd

import "testing"

// boots tests the basis of the other tests: systemd is up and applies limits, and commands run as
// the right users.
func (m *Machine) boots(t *testing.T) {
	if r := m.As(t, "", "systemd-run", "--pipe", "--wait", "-q", "-p", "MemoryMax=50M", "/opt/test/inside", "hold", "200"); r.Code == 0 {
		t.Errorf("an engine of 200 MiB has room in 50: %s", r)
	}
	m.Must(t, "useradd", "--create-home", "--base-dir", "/srv", "carol")
	if r := m.As(t, "carol", "sh", "-c", "id -un; cd; pwd; cat; exit 3"); r.Code != 3 || r.Output != "carol\n/srv/carol\n" {
		t.Errorf("as a user: %s", r)
	}
}
