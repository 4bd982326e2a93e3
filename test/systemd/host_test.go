package systemd

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"google.golang.org/protobuf/encoding/protojson"
	"google.golang.org/protobuf/proto"

	bursarv1 "github.com/bursar/bursar/proto/bursar/v1"
)

const (
	socket = "/run/bursar/agent.sock"
)

// agentYAML is the agent.yaml of the machines here: a host with heartbeats of a second.
const agentYAML = `hostId: host-1
tick: 1s
safety: 64MiB
trustedUsers: [ecm]
`

const coordinatorYAML = `times: {interval: 1s, stopGrace: 2s}
`

// host is a machine with the package.
type host struct{ *Machine }

// install starts a machine with users and with the package in the state after dpkg.
func install(t *testing.T, kind Kind) host {
	t.Helper()
	debs, err := built()
	if err != nil {
		t.Fatal(err)
	}
	h := host{Start(t, Options{Kind: kind, Files: debs.files(kind)})}
	h.Must(t, "dpkg", "-i", "/opt/test/bursar.deb")
	for _, user := range []string{"alice", "bob", "ecm"} {
		h.Must(t, "useradd", "--create-home", "--base-dir", "/srv", user)
	}
	t.Cleanup(func() {
		if t.Failed() {
			h.journal(t)
		}
	})
	return h
}

// operate starts a machine with a running coordinator and agent, as an operator sets them up. more
// is added to agent.yaml.
func operate(t *testing.T, kind Kind, more string) host {
	t.Helper()
	h := install(t, kind)
	h.configure(t, more)
	h.enable(t)
	return h
}

// configure writes the files that make this a separate host.
func (h host) configure(t *testing.T, more string) {
	t.Helper()
	h.Write(t, "/etc/bursar/agent.yaml", agentYAML+more)
	h.Write(t, "/etc/bursar/coordinator.yaml", coordinatorYAML)
}

// soon is the time in which the ledger must be right: two heartbeats of a second, and more for busy
// or emulated cores.
func (h host) soon() time.Duration {
	if h.options.Kind == Virtual {
		return 90 * time.Second
	}
	return 30 * time.Second
}

func (h host) enable(t *testing.T) {
	t.Helper()
	h.Must(t, "systemctl", "enable", "--now", "bursar-coordinator", "bursar-agent")
	h.ready(t)
}

// ready waits until the host accepts engines.
func (h host) ready(t *testing.T) {
	t.Helper()
	h.Await(t, h.soon(), `bursar hosts -o json | grep -q '"state": *"HOST_STATE_HEALTHY"'`)
}

func (h host) journal(t *testing.T) {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), 20*time.Second)
	defer cancel()
	r, err := h.Run(ctx, Command{Arguments: []string{"journalctl", "--no-pager", "-o", "short-precise", "-n", "1500", "-u", "bursar-*", "-u", "inside"}})
	if err != nil {
		t.Log(err)
		return
	}
	// Leaves out Go's dump of every goroutine when the watchdog ends it.
	said := slices.DeleteFunc(lines(r.Output), func(line string) bool {
		return !strings.Contains(line, " systemd[") && !strings.Contains(line, ": msg=")
	})
	t.Logf("journal:\n%s", strings.Join(said, "\n"))
}

// pid returns the pid of a unit's main process.
func (h host) pid(t *testing.T, unit string) int {
	t.Helper()
	pid, err := strconv.Atoi(h.Must(t, "systemctl", "show", "-p", "MainPID", "--value", unit))
	if err != nil {
		t.Fatal(err)
	}
	return pid
}

// awaitAnother waits until a unit is up again with another main process.
func (h host) awaitAnother(t *testing.T, within time.Duration, unit string, than int) {
	t.Helper()
	h.Await(t, within, fmt.Sprintf(`systemctl is-active %[1]s; pid=$(systemctl show -p MainPID --value %[1]s); [ "$pid" -gt 0 ] && [ "$pid" != %[2]d ]`, unit, than))
}

// lives reports whether a process exists and is no zombie.
func (h host) lives(t *testing.T, pid int32) bool {
	t.Helper()
	return h.As(t, "", "sh", "-c", fmt.Sprintf(`grep -q '^State:.[^Z]' /proc/%d/status`, pid)).Code == 0
}

// allocation asks the coordinator for an allocation.
func (h host) allocation(t *testing.T, id string) *bursarv1.Allocation {
	t.Helper()
	allocation := &bursarv1.Allocation{}
	decode(t, h.Must(t, "bursar", "allocations", id, "-o", "json"), allocation)
	return allocation
}

// allocations asks the coordinator for all live allocations.
func (h host) allocations(t *testing.T, more ...string) []*bursarv1.Allocation {
	t.Helper()
	list := &bursarv1.AllocationServiceListResponse{}
	decode(t, h.Must(t, append([]string{"bursar", "allocations", "-o", "json"}, more...)...), list)
	return list.GetAllocations()
}

func decode(t *testing.T, text string, message proto.Message) {
	t.Helper()
	if err := (protojson.UnmarshalOptions{DiscardUnknown: true}).Unmarshal([]byte(text), message); err != nil {
		t.Fatalf("%v: %s", err, text)
	}
}

// await waits until an allocation satisfies a condition.
func (h host) await(t *testing.T, within time.Duration, id, what string, is func(*bursarv1.Allocation) bool) *bursarv1.Allocation {
	t.Helper()
	deadline := time.Now().Add(within)
	for {
		allocation := h.allocation(t, id)
		if is(allocation) {
			return allocation
		}
		if time.Now().After(deadline) {
			t.Fatalf("not within %s: %s: %v", within, what, allocation)
		}
		select {
		case <-time.After(200 * time.Millisecond):
		case <-t.Context().Done():
			t.Fatal(t.Context().Err())
		}
	}
}

// refused reports whether a call was refused with a Connect code.
func (r Result) refused(code string) bool {
	return r.Code == 1 && strings.Contains(r.Errors, `"code":"`+code+`"`)
}

func released(a *bursarv1.Allocation) bool {
	return a.GetState() == bursarv1.AllocationState_ALLOCATION_STATE_RELEASED
}

func active(a *bursarv1.Allocation) bool {
	return a.GetState() == bursarv1.AllocationState_ALLOCATION_STATE_ACTIVE
}

// call makes an API call as a user; exit code 1 means a refusal, with the reason in the errors.
func (h host) call(t *testing.T, user, method string, request any) Result {
	t.Helper()
	text, err := json.Marshal(request)
	if err != nil {
		t.Fatal(err)
	}
	r, err := h.Run(t.Context(), Command{User: user, Arguments: []string{"/opt/test/inside", "call", socket, method}, Input: string(text)})
	if err != nil {
		t.Fatal(err)
	}
	return r
}

// engine describes an engine for a test.
type engine struct {
	user    string // default: alice
	memory  string // default: 64MiB
	cpu     string // default: 100m
	kind    string // the label engineType; default: test
	command []string
}

// reserve gets a reservation for an engine and returns its id.
func (h host) reserve(t *testing.T, e engine) string {
	t.Helper()
	e.user, e.kind, e.memory = cmp.Or(e.user, "alice"), cmp.Or(e.kind, "test"), cmp.Or(e.memory, "64MiB")
	arguments := []string{"bursar", "allocate", "-o", "json", "--memory", e.memory, "--cpu", cmp.Or(e.cpu, "100m"), "--label", "user=" + e.user, "--label", "engineType=" + e.kind, "--wait", "20s"}
	r := h.As(t, e.user, arguments...)
	if r.Code != 0 {
		t.Fatalf("allocate: %s", r)
	}
	response := &bursarv1.AllocateResponse{}
	decode(t, r.Output, response)
	return response.GetAllocation().GetId()
}

// launch has the agent start an engine, and returns its allocation.
func (h host) launch(t *testing.T, e engine) *bursarv1.Allocation {
	t.Helper()
	if len(e.command) == 0 {
		e.command = []string{"sleep", "1000"}
	}
	id := h.reserve(t, e)
	r := h.call(t, cmp.Or(e.user, "alice"), "EngineService/Launch", map[string]any{"id": id, "command": e.command})
	if r.Code != 0 {
		t.Fatalf("launch: %s", r)
	}
	response := &bursarv1.LaunchResponse{}
	decode(t, r.Output, response)
	return response.GetAllocation()
}

// running is a running `bursar run`.
type running struct {
	allocation *bursarv1.Allocation
	ended      chan Result
	within     time.Duration
}

// run starts `bursar run` as alice, and waits until its engine is in the ledger.
func (h host) run(t *testing.T, command ...string) running {
	t.Helper()
	name := fmt.Sprintf("run-%d", time.Now().UnixNano())
	ended := make(chan Result, 1)
	go func() {
		ctx, cancel := context.WithTimeout(context.WithoutCancel(t.Context()), 10*time.Minute)
		defer cancel()
		arguments := append([]string{"bursar", "run", "--memory", "64MiB", "--cpu", "100m", "--wait", "20s", "--label", "user=alice", "--label", "creator=" + name, "--"}, command...)
		r, err := h.Run(ctx, Command{User: "alice", Arguments: arguments})
		if err != nil {
			r = Result{Errors: err.Error(), Code: -1}
		}
		ended <- r
	}()
	deadline := time.Now().Add(h.soon())
	for {
		list := h.allocations(t, "--label", "creator="+name)
		if i := slices.IndexFunc(list, active); i >= 0 {
			return running{list[i], ended, h.soon()}
		}
		select {
		case r := <-ended:
			t.Fatalf("bursar run ended: %s", r)
		case <-time.After(200 * time.Millisecond):
		}
		if time.Now().After(deadline) {
			t.Fatalf("no engine of bursar run within %s: %v", h.soon(), list)
		}
	}
}

// wait waits until it has ended.
func (r running) wait(t *testing.T) Result {
	t.Helper()
	select {
	case result := <-r.ended:
		return result
	case <-time.After(r.within):
		t.Fatalf("bursar run goes on: %v", r.allocation)
		return Result{}
	}
}

// id returns the allocation's id.
func (r running) id() string { return r.allocation.GetId() }

// unit returns a property of a unit.
func (h host) unit(t *testing.T, unit, property string) string {
	t.Helper()
	return strings.TrimSpace(h.Must(t, "systemctl", "show", "-p", property, "--value", unit))
}

// pids returns the pids of engines in the ledger.
func pids(all ...*bursarv1.Allocation) []int32 {
	var list []int32
	for _, a := range all {
		list = append(list, a.GetProcess().GetPid())
	}
	return list
}
