package systemd

import (
	"strings"
	"testing"

	bursarv1 "github.com/bursar/bursar/proto/bursar/v1"
)

// TestHost tests a host at work. One container is enough for all parts that leave coordinator and
// agent unchanged.
func TestHost(t *testing.T) {
	t.Parallel()
	h := operate(t, Container, "labels: {zone: a}\n"+policies)
	t.Run("a socket that is removed is made again", h.socketReturns)
	t.Run("engines of ordinary users", h.runsEngines)
	t.Run("policies hold", func(t *testing.T) { policiesHold(t, h) })
	t.Run("users cannot harm each other", h.keepsUsersApart)
	t.Run("exposure is as the units say", h.isExposedAsStated)
	t.Run("reload", h.reloads)
}

// The unit's sandbox lets the agent recreate the socket that systemd made before.
func (h host) socketReturns(t *testing.T) {
	const socket = "/run/bursar/agent.sock"
	before := h.Must(t, "stat", "-c", "%U %G %a", socket)
	h.Must(t, "rm", socket)
	h.Await(t, h.soon(), "bursar allocations --agent "+socket)
	if after := h.Must(t, "stat", "-c", "%U %G %a", socket); after != before {
		t.Errorf("owner, group and mode are %s, were %s", after, before)
	}
	if r := h.As(t, "alice", "bursar", "run", "--memory", "16MiB", "--cpu", "100m", "--label", "user=alice", "--", "true"); r.Code != 0 {
		t.Errorf("alice: %s", r)
	}
}

// An engine that a user runs, and one that the agent starts for a user: both are in the ledger, and
// end there with their result.
func (h host) runsEngines(t *testing.T) {
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
		if end.GetExitStatus().GetCode() != 5 || end.GetErrorOutput() != "first\nlast words" {
			t.Errorf("released with %v: %s", end.GetExitStatus(), end.GetReason())
		}
		logs := "/var/log/bursar/engines/" + a.GetId()
		if got := h.Must(t, "stat", "-c", "%a %U", logs); got != "700 alice" {
			t.Errorf("%s is %s", logs, got)
		}
		if got := h.Must(t, "stat", "-c", "%a %U", logs+"/stdout"); got != "600 alice" {
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

	t.Run("run detached", h.runsDetached)

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

// An ordinary user has the agent start an engine.
func (h host) runsDetached(t *testing.T) {
	detach := func(t *testing.T, arguments ...string) *bursarv1.LaunchResponse {
		t.Helper()
		r := h.As(t, "alice", append([]string{
			"bursar", "run", "--detach", "-o", "json", "--memory", "32MiB", "--cpu", "100m", "--wait", "20s", "--label", "user=alice", "--label", "engineType=test",
		}, arguments...)...)
		if r.Code != 0 {
			t.Fatalf("bursar run --detach: %s", r)
		}
		response := &bursarv1.LaunchResponse{}
		decode(t, r.Output, response)
		return response
	}

	t.Run("its end is told", func(t *testing.T) {
		const script = `echo "out $PWD $GREETING"; echo first >&2; until [ -e go ]; do sleep 0.2; done; echo "last words" >&2; exit 5`
		launched := detach(t, "--workdir", "/srv/alice", "--env", "GREETING=hello", "--", "sh", "-c", script)
		id, pid, logs := launched.GetAllocation().GetId(), launched.GetAllocation().GetProcess().GetPid(), launched.GetLogDirectory()
		if user := h.Must(t, "ps", "-o", "user=", "-p", itoa(pid)); user != "alice" {
			t.Errorf("it runs as %s", user)
		}
		unit := "bursar-engine-" + id + ".service"
		if got := h.unit(t, unit, "Transient") + " " + h.unit(t, unit, "ActiveState"); got != "yes active" {
			t.Errorf("%s: transient and active are %s", unit, got)
		}
		// Nobody waits for it, and the agent may restart.
		h.Must(t, "systemctl", "restart", "bursar-agent")
		h.ready(t)
		h.Must(t, "runuser", "-u", "alice", "--", "touch", "/srv/alice/go")
		end := h.await(t, h.soon(), id, "it is released", released)
		if end.GetExitStatus().GetCode() != 5 || end.GetReason() != "exit code 5" || end.GetErrorOutput() != "first\nlast words" {
			t.Errorf("released with %v: %s", end.GetExitStatus(), end.GetReason())
		}
		if end.GetProcess().GetPid() != pid {
			t.Errorf("its process was %d, and %v at its end", pid, end.GetProcess())
		}
		for file, want := range map[string]string{"stdout": "out /srv/alice hello\n", "stderr": "first\nlast words\n"} {
			if owner := h.Must(t, "stat", "-c", "%U", logs+"/"+file); owner != "alice" {
				t.Errorf("%s is of %s", file, owner)
			}
			if r := h.As(t, "alice", "cat", logs+"/"+file); r.Output != want {
				t.Errorf("%s: %s", file, r)
			}
		}
	})

	t.Run("it is stopped", func(t *testing.T) {
		a := detach(t, "--", "sleep", "1000").GetAllocation()
		if r := h.As(t, "alice", "bursar", "stop", a.GetId(), "--reason", "enough"); r.Code != 0 {
			t.Fatalf("stop: %s", r)
		}
		end := h.await(t, h.soon(), a.GetId(), "it is released", released)
		if end.GetExitStatus().GetSignal() != 15 || !strings.Contains(end.GetReason(), "enough") {
			t.Errorf("released with %v: %s", end.GetExitStatus(), end.GetReason())
		}
		if h.lives(t, a.GetProcess().GetPid()) {
			t.Error("it goes on")
		}
	})

	t.Run("of a uid without an account", func(t *testing.T) {
		response := &bursarv1.LaunchResponse{}
		decode(t, h.Must(t, "env", "-i", "PATH=/usr/bin:/bin", "setpriv", "--reuid", "65000", "--regid", "65000", "--clear-groups",
			"bursar", "run", "--detach", "-o", "json", "--memory", "32MiB", "--cpu", "100m", "--wait", "20s", "--label", "engineType=test", "--", "sleep", "1000"), response)
		id, status := response.GetAllocation().GetId(), "/proc/"+itoa(response.GetAllocation().GetProcess().GetPid())+"/status"
		if got, want := h.Must(t, "awk", "/^(Uid|Gid|Groups|CapPrm|CapEff):/ { $1 = \"\"; printf \"%s;\", $0 }", status),
			"65000 65000 65000 65000; 65000 65000 65000 65000; 65000; 0000000000000000; 0000000000000000;"; got != want {
			t.Errorf("it runs with %q, want %q", got, want)
		}
		if got := h.unit(t, "bursar-engine-"+id+".service", "ActiveState"); got != "active" {
			t.Errorf("its unit is %s", got)
		}
		h.Must(t, "bursar", "stop", id, "--reason", "enough")
		h.await(t, h.soon(), id, "it is released", released)
	})

	t.Run("it is released", func(t *testing.T) {
		a := detach(t, "--", "sleep", "1000").GetAllocation()
		if r := h.As(t, "alice", "bursar", "release", a.GetId()); r.Code != 0 {
			t.Fatalf("release: %s", r)
		}
		end := h.await(t, h.soon(), a.GetId(), "it is released", released)
		if end.GetExitStatus().GetSignal() != 15 {
			t.Errorf("released with %v: %s", end.GetExitStatus(), end.GetReason())
		}
		if h.lives(t, a.GetProcess().GetPid()) {
			t.Error("it goes on without an allocation")
		}
	})
}
