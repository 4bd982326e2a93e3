package systemd

import (
	"strings"
	"testing"
	"time"

	bursarv1 "github.com/bursar/bursar/proto/bursar/v1"
)

// policies are those of the machines below: engines by their type.
const policies = `engines:
  policies:
    - {match: {engineType: limited}, onOverUse: limit, tolerance: "0%"}
    - {match: {engineType: killed}, onOverUse: kill, tolerance: "10%", grace: 2s, stopGrace: 1s}
    - {match: {engineType: observed}, onOverUse: observe}
`

// Both versions of cgroups: the container's systemd has the old controllers, the virtual machine the new ones.
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
		// It grows once it is kept to its limit: what it had before is charged to where it came from. The test's own program may not be
		// killed for lack of memory, and what it starts inherits that.
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
		// Of a scope of version 1, which has gone with it, only the kernel's log would tell, and a container does not have that.
		if want := "killed for lack of memory: its cgroup's limit of 64MiB"; h.options.Kind == Virtual && (end.GetReason() != want || !end.GetExitStatus().GetOutOfMemory()) {
			t.Errorf("it ended with %v: %s", end.GetExitStatus(), end.GetReason())
		}
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
		h.Must(t, "kill", itoa(a.GetProcess().GetPid()))
	})
}

// What only a machine with a kernel of its own can show.
func TestVirtualMachine(t *testing.T) {
	h := operate(t, Virtual, policies)
	h.Shell(t, "fallocate -l 256M /swap; chmod 600 /swap; mkswap /swap >/dev/null; swapon /swap")
	policiesHold(t, h)

	t.Run("limits are the kernel's", func(t *testing.T) {
		a := h.launch(t, engine{kind: "limited", memory: "64MiB", cpu: "500m"})
		cgroup := "/sys/fs/cgroup/bursar.slice/bursar-engines.slice/bursar-engine-" + a.GetId() + ".service"
		for file, want := range map[string]string{"memory.max": "67108864", "memory.swap.max": "0", "cpu.max": "50000 100000"} {
			if got := h.Must(t, "cat", cgroup+"/"+file); got != want {
				t.Errorf("%s is %s, want %s", file, got, want)
			}
		}
		h.Must(t, "kill", itoa(a.GetProcess().GetPid()))
		h.await(t, h.soon(), a.GetId(), "it is released", released)
	})

	h.Shell(t, "swapoff /swap")

	first, second := h.launch(t, engine{}), h.launch(t, engine{user: "bob"})
	goOn := func(t *testing.T) {
		t.Helper()
		h.ready(t)
		for _, want := range []*bursarv1.Allocation{first, second} {
			got := h.await(t, h.soon(), want.GetId(), "it is active", active)
			if pid := got.GetProcess().GetPid(); pid != want.GetProcess().GetPid() || !h.lives(t, pid) {
				t.Errorf("its process is %v, was %v", got.GetProcess(), want.GetProcess())
			}
		}
		if all := h.allocations(t); len(all) != 2 {
			t.Errorf("the books have %v", all)
		}
	}

	for _, change := range []string{"+1 hour", "-2 hours", "+1 hour"} {
		t.Run("the clock is set by "+change, func(t *testing.T) {
			h.Must(t, "date", "-s", change)
			h.Must(t, "systemctl", "restart", "bursar-agent")
			goOn(t)
			r := h.run(t, "sleep", "2")
			if result := r.wait(t); result.Code != 0 {
				t.Errorf("bursar run: %s", result)
			}
			goOn(t)
		})
	}

	t.Run("a pid is used again", func(t *testing.T) {
		a := h.launch(t, engine{command: []string{"sleep", "1000"}})
		pid := itoa(a.GetProcess().GetPid())
		h.Must(t, "systemctl", "stop", "bursar-agent.socket", "bursar-agent.service")
		h.Must(t, "kill", "-KILL", pid)
		h.Await(t, h.soon(), "[ ! -e /proc/"+pid+" ]")
		// The next process gets the next number that is free.
		h.Await(t, h.soon(), "echo $(("+pid+"-1)) >/proc/sys/kernel/ns_last_pid; setsid sleep 1001 >/dev/null 2>&1 & [ $! = "+pid+" ] || { kill $!; false; }")
		h.Must(t, "systemctl", "start", "bursar-agent")
		end := h.await(t, h.soon(), a.GetId(), "it is released", released)
		if s := end.GetExitStatus(); s.GetSignal() != 9 {
			t.Errorf("it ended with %v: %s", s, end.GetReason())
		}
		goOn(t)
		h.Must(t, "kill", pid) // it was left alone
	})

	for name, again := range map[string]func(testing.TB){"reboots": h.Reboot, "is reset": h.Reset} {
		t.Run("the machine "+name, func(t *testing.T) {
			h.Must(t, "sync")
			again(t)
			h.Await(t, time.Minute, "systemctl is-active bursar-coordinator bursar-agent")
			h.ready(t)
			for _, a := range []*bursarv1.Allocation{first, second} {
				end := h.await(t, h.soon(), a.GetId(), "an engine of the boot before is released", released)
				t.Logf("released: %s", end.GetReason())
			}
			if all := h.allocations(t); len(all) != 0 {
				t.Errorf("the books have %v", all)
			}
			h.Must(t, "bursar", "audit")
			first, second = h.launch(t, engine{}), h.launch(t, engine{user: "bob"})
			goOn(t)
		})
	}
}
