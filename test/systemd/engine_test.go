package systemd

import (
	"strings"
	"testing"
)

// An engine that a user runs, and one that the agent starts for a user: both are in the books, and leave them with how they ended.
func TestEnginesOfOrdinaryUsers(t *testing.T) {
	h := operate(t, Container, "")

	t.Run("run", func(t *testing.T) {
		r := h.run(t, "sh", "-c", "sleep 3; exit 3")
		if user := h.Must(t, "ps", "-o", "user=", "-p", itoa(r.allocation.GetProcess().GetPid())); user != "alice" {
			t.Errorf("it runs as %s", user)
		}
		if result := r.wait(t); result.Code != 3 {
			t.Errorf("its command ended with 3: %s", result)
		}
		if end := h.await(t, h.soon(), r.id(), "it is released", released); end.GetExitStatus().GetCode() != 3 {
			t.Errorf("released with %v: %s", end.GetExitStatus(), end.GetReason())
		}
	})

	t.Run("launch", func(t *testing.T) {
		const script = `echo out $PWD $USER $HOME $BURSAR_ALLOCATION_ID; echo first >&2; sleep 4; echo "last words" >&2; exit 5`
		a := h.launch(t, engine{user: "alice", command: []string{"sh", "-c", script}})
		pid := itoa(a.GetProcess().GetPid())
		if user := h.Must(t, "ps", "-o", "user=", "-p", pid); user != "alice" {
			t.Errorf("it runs as %s", user)
		}
		if cgroup := h.Must(t, "cat", "/proc/"+pid+"/cgroup"); !strings.Contains(cgroup, "/bursar-engines.slice/bursar-engine-"+a.GetId()+".service") &&
			!strings.Contains(cgroup, "bursar-engines.slice/bursar-engine-"+a.GetId()+".service") {
			t.Errorf("it is in %s", cgroup)
		}
		end := h.await(t, h.soon(), a.GetId(), "it is released", released)
		if end.GetExitStatus().GetCode() != 5 || !strings.Contains(end.GetReason(), "last words") {
			t.Errorf("released with %v: %s", end.GetExitStatus(), end.GetReason())
		}
		logs := "/var/log/bursar/engines/" + a.GetId()
		if got := h.Must(t, "stat", "-c", "%a %U", logs); got != "750 alice" {
			t.Errorf("%s is %s", logs, got)
		}
		if got := h.Must(t, "stat", "-c", "%a %U", logs+"/stdout"); got != "640 alice" {
			t.Errorf("stdout is %s", got)
		}
		if got, want := h.Must(t, "cat", logs+"/stdout"), "out /srv/alice alice /srv/alice "+a.GetId(); got != want {
			t.Errorf("stdout is %q, want %q", got, want)
		}
		if got := h.Must(t, "cat", logs+"/stderr"); got != "first\nlast words" {
			t.Errorf("stderr is %q", got)
		}
		h.Await(t, h.soon(), "[ -z \"$(systemctl list-units --all --no-legend 'bursar-engine-"+a.GetId()+".*')\" ]")
	})

	t.Run("stop", func(t *testing.T) {
		a := h.launch(t, engine{user: "alice", command: []string{"/opt/test/inside", "hold", "8", "deaf"}})
		h.Await(t, h.soon(), "grep -q holding /var/log/bursar/engines/"+a.GetId()+"/stdout")
		if r := h.call(t, "alice", "AllocationService/Stop", map[string]any{"id": a.GetId(), "grace": "1s", "reason": "enough"}); r.Code != 0 {
			t.Fatalf("stop: %s", r)
		}
		end := h.await(t, h.soon(), a.GetId(), "it is released", released)
		if end.GetExitStatus().GetSignal() != 9 {
			t.Errorf("released with %v: %s", end.GetExitStatus(), end.GetReason())
		}
	})
}
