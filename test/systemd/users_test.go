package systemd

import (
	"fmt"
	"maps"
	"regexp"
	"strings"
	"testing"
)

// bob is a user of the same machine as alice, and attacks her.
func (h host) keepsUsersApart(t *testing.T) {
	const denied, taken = "permission_denied", "confirm her reservation"
	hers := h.launch(t, engine{user: "alice", command: []string{"sh", "-c", "echo secret; sleep 1000"}})
	reserved := h.reserve(t, engine{user: "alice"})
	his := h.launch(t, engine{user: "bob"})
	process := func(pid int32) map[string]any { return map[string]any{"pid": pid} }

	t.Run("over the API", func(t *testing.T) {
		own := h.reserve(t, engine{user: "bob"})
		for name, test := range map[string]struct {
			method  string
			request map[string]any
		}{
			"release her engine":        {"AllocationService/Release", map[string]any{"id": hers.GetId()}},
			"stop her engine":           {"AllocationService/Stop", map[string]any{"id": hers.GetId()}},
			"resize her engine":         {"AllocationService/Resize", map[string]any{"id": hers.GetId(), "entitled": map[string]any{"memoryBytes": "1"}}},
			taken:                       {"AllocationService/Confirm", map[string]any{"id": reserved, "process": process(his.GetProcess().GetPid())}},
			"cancel her reservation":    {"AllocationService/Cancel", map[string]any{"id": reserved}},
			"launch by her reservation": {"EngineService/Launch", map[string]any{"id": reserved, "command": []string{"id"}}},
			"launch as her":             {"EngineService/Launch", map[string]any{"id": own, "command": []string{"id"}, "user": "alice"}},
			"launch as root":            {"EngineService/Launch", map[string]any{"id": own, "command": []string{"id"}, "user": "root"}},
			"launch as uid 0":           {"EngineService/Launch", map[string]any{"id": own, "command": []string{"id"}, "user": "0"}},
			"allocate as her":           {"AllocationService/Allocate", map[string]any{"labels": map[string]string{"user": "alice"}, "resource": map[string]any{"memoryBytes": "1"}}},
			"confirm with her process":  {"AllocationService/Confirm", map[string]any{"id": own, "process": process(hers.GetProcess().GetPid())}},
		} {
			if r := h.call(t, "bob", test.method, test.request); !r.refused(denied) && (name != taken || !r.refused("failed_precondition")) {
				t.Errorf("bob may %s: %s", name, r)
			}
		}
		if r := h.call(t, "bob", "AllocationService/Confirm", map[string]any{"id": own, "process": process(1)}); !r.refused("invalid_argument") {
			t.Errorf("bob may confirm with the first of all processes: %s", r)
		}
		if !active(h.allocation(t, hers.GetId())) || !h.lives(t, hers.GetProcess().GetPid()) {
			t.Error("her engine has ended")
		}
		// A user that the operator trusts may act for her, and as her.
		id := h.reserve(t, engine{user: "alice"})
		if r := h.call(t, "ecm", "EngineService/Launch", map[string]any{"id": id, "command": []string{"sleep", "1000"}, "user": "alice"}); r.Code != 0 {
			t.Errorf("the engine manager may not launch for her: %s", r)
		} else if user := h.Must(t, "ps", "-o", "user=", "-p", itoa(h.allocation(t, id).GetProcess().GetPid())); user != "alice" {
			t.Errorf("what it launches for her runs as %s", user)
		}
		if r := h.call(t, "ecm", "EngineService/Launch", map[string]any{"id": reserved, "command": []string{"id"}, "user": "root"}); !r.refused(denied) {
			t.Errorf("the engine manager may launch as root: %s", r)
		}
	})

	t.Run("by files and signals", func(t *testing.T) {
		logs := "/var/log/bursar/engines/" + hers.GetId()
		h.Await(t, h.soon(), "grep -q secret "+logs+"/stdout")
		for _, script := range []string{
			"cat " + logs + "/stdout", "ls " + logs, "mkdir /var/log/bursar/engines/mine", "ls /var/lib/bursar/agent", "ls /var/lib/bursar/coordinator",
			"touch /var/lib/bursar/mine", "rm -f " + socket, "touch /run/bursar/mine", "mv /run/bursar /run/away", "echo >>/etc/bursar/agent.yaml",
			fmt.Sprintf("kill %d", hers.GetProcess().GetPid()), "systemctl --no-ask-password stop bursar-agent.service",
			"systemctl --no-ask-password stop bursar-engine-" + hers.GetId() + ".service",
			fmt.Sprintf("cat /proc/%d/environ", hers.GetProcess().GetPid()),
		} {
			if r := h.As(t, "bob", "sh", "-euc", script); r.Code == 0 {
				t.Errorf("bob may %s: %s", script, r)
			}
		}
		h.Must(t, "test", "-S", socket)
	})

	t.Run("by what is launched", func(t *testing.T) {
		shadow := h.Must(t, "sha256sum", "/etc/shadow")
		h.Must(t, "install", "-d", "-o", "bob", "/srv/bob/logs")
		h.Must(t, "runuser", "-u", "bob", "--", "ln", "-s", "/etc/shadow", "/srv/bob/logs/stdout")
		id := h.reserve(t, engine{user: "bob"})
		r := h.call(t, "bob", "EngineService/Launch", map[string]any{
			"id": id, "command": []string{"echo", "evil"}, "logs": map[string]any{"directory": "/srv/bob/logs"},
		})
		if !r.refused("invalid_argument") {
			t.Errorf("a log that is a link: %s", r)
		}
		if now := h.Must(t, "sha256sum", "/etc/shadow"); now != shadow {
			t.Error("/etc/shadow was written to")
		}
		for field, change := range map[string]map[string]any{
			"command[0]":        {"command": []string{"/no/such program"}},
			"working_directory": {"working_directory": "/root"},
			"logs.directory":    {"logs": map[string]any{"directory": "/var/lib/bursar/agent"}},
		} {
			request := map[string]any{"id": id, "command": []string{"true"}}
			maps.Copy(request, change)
			if r := h.call(t, "bob", "EngineService/Launch", request); !r.refused("invalid_argument") || !strings.Contains(r.Errors, field) {
				t.Errorf("a wrong %s: %s", field, r)
			}
		}
		const text = "$(touch /tmp/pwned) `id`; echo 'x' > /tmp/pwned | %s %%n"
		if r := h.call(t, "bob", "EngineService/Launch", map[string]any{"id": id, "command": []string{"echo", text}}); r.Code != 0 {
			t.Fatalf("launch: %s", r)
		}
		h.await(t, h.soon(), id, "it is released", released)
		if said := h.Must(t, "cat", "/var/log/bursar/engines/"+id+"/stdout"); said != text {
			t.Errorf("its argument has become %q", said)
		}
		if r := h.As(t, "", "test", "-e", "/tmp/pwned"); r.Code == 0 {
			t.Error("a shell has seen it")
		}
	})

	t.Run("by flooding the agent", func(t *testing.T) {
		ended := make(chan Result, 1)
		go func() {
			r, err := h.Run(t.Context(), Command{User: "bob", Arguments: []string{"/opt/test/inside", "flood", socket, "AllocationService/List"}})
			if err != nil {
				r = Result{Errors: err.Error(), Code: -1}
			}
			ended <- r
		}()
		for range 5 {
			if r := h.As(t, "alice", "bursar", "allocations", "--agent", socket); r.Code != 0 {
				t.Errorf("alice is not answered: %s", r)
			}
		}
		r := <-ended
		var answered, refused int
		var seconds float64
		if _, err := fmt.Sscan(r.Output, &answered, &refused, &seconds); err != nil || r.Code != 0 {
			t.Fatalf("flood: %v %s", err, r)
		}
		// 1,000 at once and 100 a second.
		if most := 1000 + int(100*(seconds+1)); answered > most || refused == 0 {
			t.Errorf("of bob's flood %d calls were answered and %d refused in %.1f s: want at most %d answered", answered, refused, seconds, most)
		}
	})
}

// The exposure documented in the units equals systemd's own analysis.
func (h host) isExposedAsStated(t *testing.T) {
	for _, unit := range []string{"bursar-agent.service", "bursar-coordinator.service"} {
		stated := regexp.MustCompile(`exposure (\d+\.\d+)`).FindStringSubmatch(h.Must(t, "systemctl", "cat", unit))
		found := regexp.MustCompile(`exposure level for \S+: (\d+\.\d+)`).FindStringSubmatch(h.Must(t, "systemd-analyze", "--no-pager", "security", unit))
		if stated == nil || found == nil || stated[1] != found[1] {
			t.Errorf("%s states %v, systemd finds %v", unit, stated, found)
		}
	}
}
