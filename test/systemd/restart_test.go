package systemd

import (
	"fmt"
	"strconv"
	"strings"
	"testing"
	"time"

	bursarv1 "github.com/bursar/bursar/proto/bursar/v1"
)

func itoa(n int32) string { return strconv.Itoa(int(n)) }

// Engines outlive restarts and crashes of the two programs, and are in the ledger exactly once,
// before and after.
func TestEnginesOutliveAgentAndCoordinator(t *testing.T) {
	t.Parallel()
	h := operate(t, Container, "")
	// The packaged units wait for thirty seconds, which is too long for a test.
	for _, unit := range []string{"bursar-agent", "bursar-coordinator"} {
		h.Write(t, "/etc/systemd/system/"+unit+".service.d/test.conf", "[Service]\nWatchdogSec=4s\nRestartSec=500ms\n")
	}
	h.Must(t, "systemctl", "daemon-reload")
	h.Must(t, "systemctl", "restart", "bursar-coordinator", "bursar-agent")
	h.ready(t)

	foreground := h.run(t, "sleep", "1000")
	launched := h.launch(t, engine{user: "bob"})
	goOn := func(t *testing.T) {
		t.Helper()
		h.ready(t)
		for _, pid := range pids(foreground.allocation, launched) {
			if !h.lives(t, pid) {
				t.Fatalf("engine %d has ended", pid)
			}
		}
		for _, want := range []*bursarv1.Allocation{foreground.allocation, launched} {
			got := h.await(t, h.soon(), want.GetId(), "it is active", active)
			if got.GetProcess().GetPid() != want.GetProcess().GetPid() {
				t.Errorf("its process is %v, was %v", got.GetProcess(), want.GetProcess())
			}
		}
		if all := h.allocations(t); len(all) != 2 {
			t.Errorf("the ledger has %v", all)
		}
		h.Must(t, "bursar", "audit")
	}
	goOn(t)

	for _, test := range []struct {
		name, unit, signal, result string
	}{
		{"the watchdog restarts an agent that hangs", "bursar-agent", "STOP", "watchdog"},
		{"the watchdog restarts a coordinator that hangs", "bursar-coordinator", "STOP", "watchdog"},
		{"an agent that is killed comes back", "bursar-agent", "KILL", "signal"},
		{"a coordinator that is killed comes back", "bursar-coordinator", "KILL", "signal"},
	} {
		t.Run(test.name, func(t *testing.T) {
			before := h.pid(t, test.unit)
			since := h.Must(t, "date", "+%s")
			h.Must(t, "kill", "-"+test.signal, strconv.Itoa(before))
			h.awaitAnother(t, 60*time.Second, test.unit, before)
			if said := h.Shell(t, fmt.Sprintf("journalctl --no-pager -u %s --since @%s -g 'Failed with result'", test.unit, since)); !strings.Contains(said, "'"+test.result+"'") {
				t.Errorf("it came back for another reason than %s: %s", test.result, said)
			}
			goOn(t)
		})
	}

	t.Run("engines go on while the agent is stopped", func(t *testing.T) {
		ending := h.launch(t, engine{command: []string{"sh", "-c", "sleep 3; exit 7"}})
		h.Must(t, "systemctl", "stop", "bursar-agent.socket", "bursar-agent.service")
		h.Await(t, h.soon(), fmt.Sprintf("! grep -q '^State:.[^Z]' /proc/%d/status", ending.GetProcess().GetPid()))
		for _, pid := range pids(foreground.allocation, launched) {
			if !h.lives(t, pid) {
				t.Errorf("engine %d has ended", pid)
			}
		}
		h.Must(t, "systemctl", "start", "bursar-agent")
		end := h.await(t, h.soon(), ending.GetId(), "the agent tells what ended while it was away", released)
		if end.GetExitStatus().GetCode() != 7 {
			t.Errorf("it ended with %v: %s", end.GetExitStatus(), end.GetReason())
		}
		goOn(t)
	})

	t.Run("callers wait while the agent restarts", func(t *testing.T) {
		h.Must(t, "systemctl", "stop", "bursar-agent.service")
		// systemd owns the socket: the call waits for the agent, which it starts.
		r := h.As(t, "alice", "bursar", "allocate", "--agent", socket, "--memory", "16MiB", "--label", "user=alice", "--wait", "10s", "-o", "json")
		if r.Code != 0 {
			t.Fatalf("allocate: %s", r)
		}
		got := &bursarv1.AllocateResponse{}
		decode(t, r.Output, got)
		h.Must(t, "bursar", "release", got.GetAllocation().GetId())
		goOn(t)
	})

	t.Run("callers succeed through restarts", func(t *testing.T) {
		const loop = `for i in 1 2 3 4 5 6 7 8; do
	id=$(bursar allocate --agent /run/bursar/agent.sock --memory 16MiB --label user=alice --wait 20s -o json | sed -n 's/^ *"id": *"\(.*\)",/\1/p')
	bursar release "$id" >/dev/null
done`
		ended := make(chan Result, 1)
		go func() {
			r, err := h.Run(t.Context(), Command{User: "alice", Arguments: []string{"sh", "-euc", loop}})
			if err != nil {
				r = Result{Errors: err.Error(), Code: -1}
			}
			ended <- r
		}()
		for range 3 {
			h.Must(t, "systemctl", "restart", "bursar-agent")
		}
		if r := <-ended; r.Code != 0 {
			t.Errorf("calls during restarts: %s", r)
		}
		goOn(t)
	})
}

// A reload applies a valid file while the agent runs; an invalid one makes systemctl fail and
// changes nothing.
func (h host) reloads(t *testing.T) {
	agent, coordinator := h.pid(t, "bursar-agent"), h.pid(t, "bursar-coordinator")
	zone := func(want string) {
		t.Helper()
		h.Await(t, h.soon(), fmt.Sprintf(`bursar hosts host-1 -o json | grep -q '"zone": *"%s"'`, want))
	}
	zone("a")

	h.Write(t, "/etc/bursar/agent.yaml", agentYAML+"labels: {zone: b}\n")
	h.Must(t, "systemctl", "reload", "bursar-agent")
	zone("b")

	h.Write(t, "/etc/bursar/agent.yaml", agentYAML+"labels: {zone: c}\nno such field: 1\n")
	if r := h.As(t, "", "systemctl", "reload", "bursar-agent"); r.Code == 0 {
		t.Error("a bad file is taken for a good one")
	}
	zone("b")
	h.Must(t, "systemctl", "is-active", "bursar-agent")

	h.Write(t, "/etc/bursar/quotas.yaml", "quotas:\n  - selector: {user: alice}\n    limit: {memory: 32MiB}\n")
	h.Write(t, "/etc/bursar/coordinator.yaml", coordinatorYAML+"quotaFiles: [/etc/bursar/quotas.yaml]\n")
	h.Must(t, "systemctl", "reload", "bursar-coordinator")
	h.Await(t, h.soon(), "bursar quotas -o json | grep -q alice")
	h.Write(t, "/etc/bursar/coordinator.yaml", coordinatorYAML+"listen: here\n")
	if r := h.As(t, "", "systemctl", "reload", "bursar-coordinator"); r.Code == 0 {
		t.Error("a bad file is taken for a good one")
	}
	h.Must(t, "bursar", "status")

	if a, c := h.pid(t, "bursar-agent"), h.pid(t, "bursar-coordinator"); a != agent || c != coordinator {
		t.Error("they were restarted")
	}
}
