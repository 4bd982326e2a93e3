package render

import (
	"strings"
	"testing"

	"google.golang.org/protobuf/types/known/timestamppb"

	bursarv1 "github.com/bursar/bursar/proto/bursar/v1"
)

// endedWith is an engine that was entitled to 64 MiB and used 60 MiB at most.
func endedWith(reason string, exit *bursarv1.ExitStatus, incidents ...*bursarv1.Incident) *bursarv1.Allocation {
	return &bursarv1.Allocation{
		State: bursarv1.AllocationState_ALLOCATION_STATE_RELEASED, EndTime: timestamppb.Now(), Reason: reason, ExitStatus: exit, Incidents: incidents,
		Entitled: &bursarv1.Resource{MemoryBytes: new(int64(64 << 20))}, MeasuredPeak: &bursarv1.Resource{MemoryBytes: new(int64(60 << 20))},
	}
}

func kills(count, most, bound int64) *bursarv1.Incident {
	return &bursarv1.Incident{
		Kind: bursarv1.IncidentKind_INCIDENT_KIND_MEMORY_KILL, Dimension: "memory", Count: count, MostUsed: most << 20, Bound: bound << 20,
		FirstTime: timestamppb.Now(), LastTime: timestamppb.Now(),
	}
}

func TestRunSaysWhatEndedItsCommand(t *testing.T) {
	killed, ended, code := &bursarv1.ExitStatus{Signal: 9}, &bursarv1.ExitStatus{Signal: 15}, &bursarv1.ExitStatus{Code: new(int32(1))}
	const formula = " next time (the most it used and a quarter of that, rounded up to 64MiB)"
	for name, test := range map[string]struct {
		a     *bursarv1.Allocation
		cause string
		facts string
	}{
		"by itself":      {endedWith("released by alice", code), "", ""},
		"by its own ^C":  {endedWith("killed by SIGTERM", ended), "", ""},
		"nothing known":  {nil, "", ""},
		"still released": {&bursarv1.Allocation{State: bursarv1.AllocationState_ALLOCATION_STATE_ACTIVE, Reason: "stopped"}, "", ""},
		"at its limit": {
			endedWith("killed for lack of memory: its cgroup's limit of 64MiB", killed, kills(1, 64, 64)),
			"the command was killed for lack of memory: its cgroup's limit of 64MiB",
			"it was entitled to 64MiB of memory and used 64MiB at most; ask for --memory 128MiB" + formula,
		},
		"the machine's, within its entitlement": {
			endedWith("killed for lack of memory: the machine's", killed, kills(1, 60, 0)),
			"the command was killed for lack of memory: the machine's",
			"it was entitled to 64MiB of memory and used 60MiB at most: the memory of others or of the machine ran out, and a larger request alone does not help",
		},
		"the machine's, beyond its entitlement": {
			endedWith("killed for lack of memory: the machine's", killed, kills(1, 200, 0)),
			"the command was killed for lack of memory: the machine's",
			"it was entitled to 64MiB of memory and used 200MiB at most; ask for --memory 256MiB" + formula,
		},
		"a process of it": {
			endedWith("exit code 1, after the kernel had killed 2 of its processes for lack of memory: its cgroup's limit of 64MiB", code, kills(2, 64, 64)),
			"the command ended with exit code 1, after the kernel had killed 2 of its processes for lack of memory: its cgroup's limit of 64MiB",
			"it was entitled to 64MiB of memory and used 64MiB at most; ask for --memory 128MiB" + formula,
		},
		"a process of it, in other words": {
			endedWith("done", &bursarv1.ExitStatus{Code: new(int32(0))}, kills(1, 64, 64)),
			"the command has ended, after the kernel had killed 1 process of it for lack of memory",
			"it was entitled to 64MiB of memory and used 64MiB at most; ask for --memory 128MiB" + formula,
		},
		"an older agent": {
			endedWith("released by alice", &bursarv1.ExitStatus{Signal: 9, OutOfMemory: true}), "the command was killed for lack of memory",
			"it was entitled to 64MiB of memory and used 60MiB at most",
		},
		"the policy kill": {
			endedWith("stopped: uses 150MiB of memory, is entitled to 64MiB, for 5s (policy kill)", ended, &bursarv1.Incident{
				Kind: bursarv1.IncidentKind_INCIDENT_KIND_OVER_USE, Dimension: "memory", Count: 1, MostUsed: 150 << 20, Bound: 64 << 20,
			}),
			"the command was stopped: uses 150MiB of memory, is entitled to 64MiB, for 5s (policy kill)",
			"it was entitled to 64MiB of memory and used 150MiB at most; ask for --memory 192MiB" + formula,
		},
		"an operator": {
			endedWith("stopped: maintenance", ended), "the command was stopped: maintenance", "it was entitled to 64MiB of memory and used 60MiB at most",
		},
		"a drained host": {
			endedWith("stopped: host h1 is drained", ended), "the command was stopped: host h1 is drained", "it was entitled to 64MiB of memory and used 60MiB at most",
		},
		"the coordinator": {
			&bursarv1.Allocation{State: bursarv1.AllocationState_ALLOCATION_STATE_LOST, EndTime: timestamppb.Now(), Reason: "host h1 was lost"},
			"its allocation had ended before it did: lost (host h1 was lost)", "",
		},
		"somebody else's release": {endedWith("released by root", nil), "its allocation had ended before it did: released by root", "it was entitled to 64MiB of memory and used 60MiB at most"},
	} {
		if got := EndCause(test.a); got != test.cause {
			t.Errorf("%s: %q, want %q", name, got, test.cause)
		}
		if got := MemoryFacts(test.a); test.cause != "" && got != test.facts {
			t.Errorf("%s: %q, want %q", name, got, test.facts)
		}
	}
}

func TestIncidentsAreSaidInWords(t *testing.T) {
	a := endedWith("released by alice", &bursarv1.ExitStatus{Code: new(int32(0)), OutOfMemory: true}, kills(3, 64, 64))
	a.Incidents = append(a.Incidents,
		&bursarv1.Incident{Kind: bursarv1.IncidentKind_INCIDENT_KIND_OVER_USE, Dimension: "cpu", Count: 1, MostUsed: 2500, Bound: 1000, Ongoing: true, FirstTime: timestamppb.Now(), LastTime: timestamppb.Now()},
		&bursarv1.Incident{Kind: bursarv1.IncidentKind_INCIDENT_KIND_LIMIT_NOT_HELD, Dimension: "memory", Count: 2, Bound: 64 << 20, FirstTime: timestamppb.Now(), LastTime: timestamppb.Now()},
		&bursarv1.Incident{Kind: 99, Dimension: "memory", Count: 2})
	got := strings.Join(incidentFacts(a), "|")
	for _, want := range []string{
		"incident|the kernel killed 3 processes for lack of memory at the limit of 64MiB; ", "incident|over-use of cpu 1 time: at most 2500m of 1; ", ", until its end|",
		"incident|its limit of 64MiB did not hold 2 times; ", "next time|--memory 128MiB: the most",
	} {
		if !strings.Contains(got, want) {
			t.Errorf("%q, want %q in it", got, want)
		}
	}
}
