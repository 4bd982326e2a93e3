package systemd

import (
	"testing"
	"time"

	bursarv1 "github.com/bursar/bursar/proto/bursar/v1"
)

// Tests that need a machine with its own kernel.
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
			t.Errorf("the ledger has %v", all)
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
		// The next process gets the next free pid.
		h.Await(t, h.soon(), "echo $(("+pid+"-1)) >/proc/sys/kernel/ns_last_pid; setsid sleep 1001 >/dev/null 2>&1 & [ $! = "+pid+" ] || { kill $!; false; }")
		h.Must(t, "systemctl", "start", "bursar-agent")
		end := h.await(t, h.soon(), a.GetId(), "it is released", released)
		if s := end.GetExitStatus(); s.GetSignal() != 9 {
			t.Errorf("it ended with %v: %s", s, end.GetReason())
		}
		goOn(t)
		h.Must(t, "kill", pid) // it was not killed
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
				t.Errorf("the ledger has %v", all)
			}
			h.Must(t, "bursar", "audit")
			first, second = h.launch(t, engine{}), h.launch(t, engine{user: "bob"})
			goOn(t)
		})
	}
}
