package systemd

import (
	"strings"
	"testing"

	bursarv1 "github.com/bursar/bursar/proto/bursar/v1"
)

// policies are the policies of the machines below: engines by their type.
const policies = `engines:
  policies:
    - {match: {engineType: limited}, onOverUse: limit, tolerance: "0%"}
    - {match: {engineType: killed}, onOverUse: kill, tolerance: "10%", grace: 2s, stopGrace: 1s}
    - {match: {engineType: observed}, onOverUse: observe}
`

// Both versions of cgroups: the container's systemd has the old controllers, the virtual machine
// the new ones.
func policiesHold(t *testing.T, h host) {
	t.Helper()
	hold := []string{"/opt/test/inside", "hold", "160"}

	t.Run("limit", func(t *testing.T) {
		a := h.launch(t, engine{kind: "limited", memory: "64MiB", cpu: "500m", command: hold})
		end := h.await(t, h.soon(), a.GetId(), "the kernel ends it", released)
		if s := end.GetExitStatus(); s.GetSignal() != 9 || !s.GetOutOfMemory() {
			t.Errorf("it ended with %v", s)
		}
		if want := "killed for lack of memory: its cgroup's limit of 64MiB"; !strings.Contains(end.GetReason(), want) {
			t.Errorf("the reason is %q", end.GetReason())
		}
	})

	t.Run("limit of a running engine", func(t *testing.T) {
		// It grows after its limit applies: its earlier memory is charged to its former cgroup. The
		// test's own program must not be killed for lack of memory, and its children inherit that.
		const script = `id=$(bursar allocate --memory 64MiB --cpu 500m --label user=alice --label engineType=limited -o json | sed -n 's/^ *"id": *"\(.*\)",/\1/p')
choom -n 0 -- sh -c 'while [ ! -e /srv/alice/grow ]; do sleep 0.2; done; exec /opt/test/inside hold 160' >/dev/null 2>&1 &
bursar confirm "$id" --pid $! >/dev/null; echo "$id"`
		r := h.As(t, "alice", "sh", "-euc", script)
		if r.Code != 0 {
			t.Fatal(r)
		}
		id := strings.TrimSpace(r.Output)
		scope := "bursar.slice/bursar-engines.slice/bursar-engine-" + id + ".scope"
		limit := "/sys/fs/cgroup/" + scope + "/memory.max"
		if h.options.Kind == Container {
			limit = "/sys/fs/cgroup/memory/" + scope + "/memory.limit_in_bytes"
		}
		h.Await(t, h.soon(), `[ "$(cat `+limit+`)" = 67108864 ]`)
		if h.options.Kind == Virtual {
			h.Must(t, "grep", "-x", "0", "/sys/fs/cgroup/"+scope+"/memory.swap.max")
		}
		h.Must(t, "touch", "/srv/alice/grow")
		end := h.await(t, h.soon(), id, "the kernel ends it", released)
		if s := end.GetExitStatus(); s.GetSignal() != 9 {
			t.Errorf("it ended with %v", s)
		}
		// For a removed scope of version 1, only the kernel's log would have the reason, and a
		// container does not have that log.
		if want := "killed for lack of memory: its cgroup's limit of 64MiB"; h.options.Kind == Virtual && (end.GetReason() != want || !end.GetExitStatus().GetOutOfMemory()) {
			t.Errorf("it ended with %v: %s", end.GetExitStatus(), end.GetReason())
		}
	})

	t.Run("a running engine is moved and hides nothing", func(t *testing.T) {
		const script = `id=$(bursar allocate --memory 256MiB --cpu 500m --label user=alice -o json | sed -n 's/^ *"id": *"\(.*\)",/\1/p')
sh -c 'while [ ! -e /srv/alice/fill ]; do sleep 0.2; done; exec 3<>/dev/shm/held; rm /dev/shm/held; head -c 67108864 /dev/zero >&3; exec sleep 1000' >/dev/null 2>&1 &
bursar confirm "$id" --pid $! >/dev/null; echo "$id"`
		r := h.As(t, "alice", "sh", "-euc", script)
		if r.Code != 0 {
			t.Fatal(r)
		}
		id := strings.TrimSpace(r.Output)
		scope := "bursar.slice/bursar-engines.slice/bursar-engine-" + id + ".scope"
		h.Await(t, h.soon(), `grep -qs . /sys/fs/cgroup/`+scope+`/cgroup.procs /sys/fs/cgroup/memory/`+scope+`/cgroup.procs`)
		// The session's limit on the number of processes stays with the engine.
		if most := h.Shell(t, `cat /sys/fs/cgroup/`+scope+`/pids.max /sys/fs/cgroup/pids/`+scope+`/pids.max 2>/dev/null || true`); h.options.Kind == Virtual && most == "max" {
			t.Errorf("it may have %q processes: it got out of its session's limit", most)
		}
		h.Must(t, "touch", "/srv/alice/fill")
		a := h.await(t, h.soon(), id, "a file in memory that nobody has mapped is seen", func(a *bursarv1.Allocation) bool {
			return a.GetUnreclaimableBytes() >= 64<<20 || released(a)
		})
		h.Must(t, "bursar", "stop", a.GetId())
		h.await(t, h.soon(), id, "it is released", released)
	})

	t.Run("kill", func(t *testing.T) {
		a := h.launch(t, engine{kind: "killed", memory: "64MiB", command: hold})
		flagged := h.await(t, h.soon(), a.GetId(), "it is flagged", func(a *bursarv1.Allocation) bool { return len(a.GetOverUse()) > 0 || released(a) })
		if released(flagged) {
			t.Errorf("it was not flagged before it ended: %v", flagged)
		}
		end := h.await(t, h.soon(), a.GetId(), "it is stopped", released)
		if !strings.Contains(end.GetReason(), "policy kill") {
			t.Errorf("the reason is %q", end.GetReason())
		}
		if s := end.GetExitStatus(); s.GetOutOfMemory() {
			t.Errorf("it ended with %v", s)
		}
	})

	t.Run("observe", func(t *testing.T) {
		a := h.launch(t, engine{kind: "observed", memory: "64MiB", command: hold})
		flagged := h.await(t, h.soon(), a.GetId(), "it is flagged", func(a *bursarv1.Allocation) bool { return len(a.GetOverUse()) > 0 })
		if over := flagged.GetOverUse()[0]; over.GetDimension() != "memory" || over.GetUsed() <= 64<<20 || over.GetPolicy() != bursarv1.OverUsePolicy_OVER_USE_POLICY_OBSERVE {
			t.Errorf("it is flagged with %v", over)
		}
		if list := h.Must(t, "bursar", "allocations"); !strings.Contains(list, "observe") {
			t.Errorf("bursar allocations does not mark it:\n%s", list)
		}
		h.Must(t, "bursar", "release", a.GetId())
		h.await(t, h.soon(), a.GetId(), "it is released", released)
	})
}
