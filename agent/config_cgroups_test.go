package agent_test

import (
	"testing"

	"github.com/bursar/bursar/agent"
)

func TestAsAServiceTheHostIsWhatTheSliceOfEnginesAllows(t *testing.T) {
	for _, c := range []struct{ notify, configured, want string }{
		{"", "", ""}, // the agent's own
		{"", "/engines", "/engines"},
		{"/run/systemd/notify", "", "/bursar.slice/bursar-engines.slice"},
		{"/run/systemd/notify", "/engines", "/engines"},
	} {
		t.Setenv("NOTIFY_SOCKET", c.notify)
		got, err := agent.Config{Cgroup: c.configured}.WithDefaults()
		if err != nil || got.Cgroup != c.want {
			t.Errorf("NOTIFY_SOCKET=%q, cgroup %q: got %q, %v: want %q", c.notify, c.configured, got.Cgroup, err, c.want)
		}
	}
}
