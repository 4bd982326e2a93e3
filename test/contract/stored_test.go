package contract

import (
	"encoding/hex"
	"fmt"
	"os"
	"path/filepath"
	"reflect"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"google.golang.org/protobuf/testing/protocmp"
	"google.golang.org/protobuf/types/known/timestamppb"

	"github.com/bursar/bursar/agent/statefile"
	"github.com/bursar/bursar/agent/tracker"
	"github.com/bursar/bursar/coordinator/ledger"
	"github.com/bursar/bursar/coordinator/store"
	"github.com/bursar/bursar/label"
	bursarv1 "github.com/bursar/bursar/proto/bursar/v1"
	"github.com/bursar/bursar/resource"
)

// at is a fixed moment, some seconds into the example.
func at(seconds int64) ledger.Instant {
	return ledger.At(time.Unix(1893456000+seconds, 123456789).UTC())
}

func size(gib int64) resource.Vector {
	return resource.Vector{}.WithMemory(gib<<30).WithCPU(gib*500).WithInstances(gib).With("gpu", gib)
}

// allocation has each field set that is stored.
func allocation() ledger.Allocation {
	parts := func(gib int64) resource.Resource {
		return resource.NewResource(size(gib), resource.External{
			Address: resource.Address{Kind: "yarn", Cluster: "prod", Path: "root.a", Partition: "gpu"}, Vector: size(gib + 1),
		})
	}
	return ledger.Allocation{
		ID: 1<<40 + 7, RequestID: "request-1", Caller: "user:alice", RequestHash: 1<<63 + 9, State: ledger.Active,
		Labels: label.Of("user", "alice"), Requested: parts(2), Entitled: parts(1), HostID: "vm-1", HostAddress: "10.0.0.1:7071",
		Wishes:   &ledger.Wishes{Host: "vm-1", Required: label.Of("zone", "a"), Preferred: label.Of("rack", "r1"), Avoid: []string{"vm-2"}},
		Priority: -3, Created: at(1), Reserved: at(2), Confirmed: at(3), Ended: at(4), Expires: at(5), WaitDeadline: at(6), PassedSince: at(7),
		ReservationTTL: 2 * time.Minute, Lease: time.Hour, Async: true, OverLimit: true, Forget: true, Stopping: true, Releasing: true, StopGrace: 30 * time.Second,
		MemoryLimit: 1 << 18, Reason: "a reason", StopReason: "why it stops", Process: ledger.Process{PID: 4711, StartTime: 99, Cgroup: "/bursar/e1", BootID: "boot-1"},
		Address: "10.0.0.1:4040", ApplicationIDs: []string{"application_1_0001"},
		Exit: &ledger.ExitStatus{Code: new(int32(3)), Signal: 9, OutOfMemory: true}, ErrorOutput: "what it said last",
		OverUse: []ledger.OverUse{{
			Dimension: resource.Memory, Used: 3 << 30, Entitled: 1 << 30, Since: at(8), Policy: ledger.PolicyKill, StopTime: at(9),
		}},
		Revision: 77, GrantRevision: 70,
	}
}

func host() ledger.HostRecord {
	return ledger.HostRecord{
		ID: "vm-1", Address: "10.0.0.1:7071", Labels: label.Of("zone", "a"), Cordoned: true, Draining: true, Lost: true, Capacity: size(64),
		Protected: size(2), Reason: "disk failing", Registered: at(1), Incarnation: 5, BootID: "boot-1", Version: "v1", Revision: 12,
		StopTime: at(600), MachineID: "machine-1", PIDNamespace: "4026531836", Token: "a hash", TokenBefore: "another hash",
	}
}

func quota(t *testing.T) ledger.Quota {
	t.Helper()
	selector, err := label.ParseSelector("user=*")
	if err != nil {
		t.Fatal(err)
	}
	return ledger.Quota{
		Selector: selector, Limit: size(8), Guaranteed: size(2), Weight: 3, Source: "api",
		External:           resource.NewLimits(resource.External{Address: resource.Address{Kind: "yarn", Path: "root.a"}, Vector: size(16)}),
		GuaranteedExternal: resource.NewLimits(resource.External{Address: resource.Address{Kind: "yarn", Cluster: "prod", Path: "root.a"}, Vector: size(9)}),
		Normalization:      &resource.Normalization{Minimum: size(1), Increment: size(2), Maximum: size(4)},
	}
}

func provider() ledger.ProviderRecord {
	return ledger.ProviderRecord{
		ClusterName: ledger.ClusterName{Kind: "yarn", Cluster: "prod"}, Default: true, Settings: map[string]string{"addresses": "http://rm1:8088"}, Source: "api",
	}
}

func refusal() ledger.Refusal {
	r := ledger.Refusal{Procedure: "/bursar.v1.AllocationService/Allocate", Caller: "user:alice", Cause: "index out of range", At: at(1), Version: "v1"}
	copy(r.Hash[:], "0123456789abcdef0123456789abcdef")
	return r
}

// set reports the fields of an example that are not set, except those that are never stored.
func set(t *testing.T, example any, but ...string) {
	t.Helper()
	v := reflect.ValueOf(example)
	for i := range v.NumField() {
		if name := v.Type().Field(i).Name; v.Field(i).IsZero() && !strings.Contains(strings.Join(but, " "), name) {
			t.Errorf("%T: the example has no %s", example, name)
		}
	}
}

// TestRows keeps the bytes of the store's rows. What an earlier version has written is read.
func TestRows(t *testing.T) {
	a, h, q, p, r := allocation(), host(), quota(t), provider(), refusal()
	set(t, a, "Measured", "Peak", "CPUTime", "Notes", "Start", "LeaderEnd", "Unreclaimable", "Claimed", "Subordinate")
	ended := a // with what rows have since then
	ended.ID, ended.State, ended.Measured, ended.Peak = a.ID+1, ledger.Released, size(1), ledger.NewPeak(size(3), ledger.PeakKernel)
	ended.CPUTime, ended.Unreclaimable = time.Minute, 2
	ended.LeaderEnd = &ledger.LeaderEnd{Time: at(7), Exit: &ledger.ExitStatus{Signal: 9}, Policy: ledger.StopAtLeaderEnd}
	ended.Notes = &ledger.Notes{StopError: "why it did not end", Incidents: []ledger.Incident{{
		Kind: ledger.IncidentMemoryKill, Dimension: resource.Memory, Count: 2, First: a.Confirmed, Last: a.Confirmed, MostUsed: 3, Bound: 4, Ongoing: true,
	}}}
	ended.Start = &ledger.Start{
		Name: "nightly", Phase: ledger.Failed, PhaseSince: at(5), PhaseReason: "nothing listens on port 8080",
		Launch: &ledger.Launch{
			Account: "etl", Program: "spark-submit", LogDirectory: "/var/log/bursar/engines/1", Watched: true, Retries: 2, Row: a.ID, Successor: a.ID + 2,
			Tries: []ledger.Try{{HostID: "vm-2", At: at(4), Reason: "exit code 1", Executed: true, ErrorOutput: "no license", Fault: ledger.NotFound}},
		},
	}
	set(t, ended, "Claimed", "Subordinate")
	set(t, h, "Left", "CordonedUntil", "Expected")
	set(t, q)
	set(t, p)
	set(t, r, "Unversioned")
	var rows store.Rows
	batch := store.Batch{Epoch: 3}
	batch.Revision, batch.LastID, batch.Time = 77, a.ID, at(9)
	batch.Transitions, batch.Hosts, batch.Quotas = []ledger.Allocation{a, ended}, []ledger.HostRecord{h}, []ledger.Quota{q}
	batch.Providers, batch.Refusals = []ledger.ProviderRecord{p}, []ledger.Refusal{r}
	if err := rows.Encode(&batch); err != nil {
		t.Fatal(err)
	}
	var text strings.Builder
	row := rows.Allocations[0]
	fmt.Fprintf(&text, "meta %d %d %d %d\n", rows.Epoch, rows.Sequence, rows.LastID, rows.Time)
	fmt.Fprintf(&text, "allocation %d %d %d %s %s %s %d %d\n%s\n", row.ID, row.State, row.Ended, row.HostID, row.Caller, row.RequestID,
		row.RequestHash, row.Forget, hex.Dump(row.Payload))
	for _, table := range []struct {
		name string
		rows []store.KeyedRow
	}{
		{store.HostTable, rows.Hosts},
		{store.QuotaTable, rows.Quotas},
		{store.ProviderTable, rows.Providers},
		{store.RefusalTable, rows.Refusals},
	} {
		fmt.Fprintf(&text, "%s %s\n%s\n", table.name, table.rows[0].Key, hex.Dump(table.rows[0].Payload))
	}
	fmt.Fprintf(&text, "allocation %d\n%s\n", rows.Allocations[1].ID, hex.Dump(rows.Allocations[1].Payload))
	golden(t, "rows.txt", text.String())

	payloads := undumped(t, "rows.txt")
	got, err := store.DecodeAllocation(a.ID, a.Forget, payloads[0])
	same(t, err, a, got)
	gotHost, err := store.DecodeHost(h.ID, payloads[1])
	same(t, err, h, gotHost)
	gotQuota, err := store.DecodeQuota(q.Selector.String(), payloads[2])
	same(t, err, q, gotQuota)
	gotProvider, err := store.DecodeProvider(p.String(), payloads[3])
	same(t, err, p, gotProvider)
	gotRefusal, err := store.DecodeRefusal(rows.Refusals[0].Key, payloads[4])
	same(t, err, r, gotRefusal)
	gotEnded, err := store.DecodeAllocation(ended.ID, ended.Forget, payloads[5])
	same(t, err, ended, gotEnded)
}

func same(t *testing.T, err error, want, got any) {
	t.Helper()
	if diff := cmp.Diff(want, got, protocmp.Transform()); err != nil || diff != "" {
		t.Errorf("%v (-want +got):\n%s", err, diff)
	}
}

// undumped are the bytes of each hex.Dump in a golden file.
func undumped(t *testing.T, name string) (all [][]byte) {
	t.Helper()
	content, err := os.ReadFile(filepath.Join("testdata", name))
	if err != nil {
		t.Fatal(err)
	}
	dumped := regexp.MustCompile(`^[0-9a-f]{8}  ([0-9a-f ]{48}) `)
	for line := range strings.SplitSeq(string(content), "\n") {
		match := dumped.FindStringSubmatch(line)
		if match == nil {
			continue
		}
		bytes, err := hex.DecodeString(strings.ReplaceAll(match[1], " ", ""))
		if err != nil {
			t.Fatal(err)
		}
		if strings.HasPrefix(line, "00000000 ") {
			all = append(all, nil)
		}
		all[len(all)-1] = append(all[len(all)-1], bytes...)
	}
	return all
}

func state() statefile.State {
	return statefile.State{
		HostID: "vm-1", Incarnation: 5, SavedAt: at(10).Time(),
		Snapshot: tracker.Snapshot{
			Epoch: 7, Leadership: 1<<63 + 1, StoreID: "store-1", BootID: "boot-1", Engines: []*bursarv1.Allocation{engine("a")},
			Ended: []*bursarv1.EngineEnd{{
				AllocationId: "b", EndTime: timestamppb.New(at(4).Time()), ExitStatus: &bursarv1.ExitStatus{Signal: 9}, Reason: "process ended",
			}},
		},
	}
}

func engine(id string) *bursarv1.Allocation {
	return &bursarv1.Allocation{
		Id: id, HostId: "vm-1", State: bursarv1.AllocationState_ALLOCATION_STATE_ACTIVE, Revision: 12, Labels: map[string]string{"user": "alice"},
		Entitled: &bursarv1.Resource{MemoryBytes: new(int64(1 << 30)), CpuMillis: new(int64(500))},
		Process:  &bursarv1.Process{Pid: 42, StartTime: 99, BootId: "boot-1"},
	}
}

// change is what happens after state was stored.
func change() tracker.Change {
	return tracker.Change{
		Engines: []*bursarv1.Allocation{engine("c")}, Gone: []string{"b"}, Ended: []*bursarv1.EngineEnd{{AllocationId: "a", Reason: "process ended"}},
	}
}

// TestAgentState keeps the bytes of the agent's state file and of its log, whose name is random
// and is in its checksums.
func TestAgentState(t *testing.T) {
	path := t.TempDir()
	dir, err := statefile.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	defer dir.Close()
	var text strings.Builder
	for _, step := range []func() error{
		func() error { return dir.Save(state()) },
		func() error { return dir.Begin(state()) },
		func() error { return dir.Append(change()) },
	} {
		if err := step(); err != nil {
			t.Fatal(err)
		}
		files, err := filepath.Glob(filepath.Join(path, "state*"))
		if err != nil {
			t.Fatal(err)
		}
		for _, file := range files {
			content, err := os.ReadFile(file)
			if err != nil {
				t.Fatal(err)
			}
			fmt.Fprintf(&text, "== %s, %d bytes\n%s\n", filepath.Base(file), len(content), strings.Join(strings.Fields(string(content)), " "))
		}
	}
	name := regexp.MustCompile(`\b[A-Z2-7]{26}\b`)
	checksum := regexp.MustCompile(`("checksum":"|(?m:^))[0-9a-f]{8}(",.*"log":| [0-9a-f]{8} )`)
	golden(t, "agent-state.txt", checksum.ReplaceAllString(name.ReplaceAllString(text.String(), "NAME"), "${1}CHECKSUM$2"))
}

// TestAgentStateOfBefore reads a directory that an earlier agent has left. -update does not touch
// it.
func TestAgentStateOfBefore(t *testing.T) {
	path := t.TempDir()
	if err := os.CopyFS(path, os.DirFS(filepath.Join("testdata", "agent-state"))); err != nil {
		t.Fatal(err)
	}
	dir, err := statefile.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	defer dir.Close()
	got, err := dir.Load()
	want := state()
	want.Engines, want.Ended = change().Engines, change().Ended
	same(t, err, want, got)
}
