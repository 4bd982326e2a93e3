package main

import (
	"bytes"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/bursar/bursar/providers"
	"github.com/bursar/bursar/resource"
)

// The measured answer has the form and the size of a real CapacityScheduler's.
func TestAnAnswerIsReadAsTheClusterIs(t *testing.T) {
	for _, queues := range []int{1, 2, 10, 11, 50, 500} {
		c := yarnCluster{queues: queues}
		body := c.answer()
		read, err := decode(bytes.NewReader(body))
		if err != nil || len(read) != queues+1 {
			t.Fatalf("%d queues, %v: want %d and the root", len(read), err, queues)
		}
		if each := len(body) / queues; queues >= 50 && (each < 7000 || each > 7700) {
			t.Errorf("%d bytes for each of %d queues", each, queues)
		}
		most := resource.Vector{}.WithMemory(clusterMiB << 20).WithCPU(clusterCores * 1000)
		used, whole, leaves := resource.Vector{}, resource.Vector{}, c.leaves()
		for _, q := range read {
			q.Limit, q.Used = withoutApplications(q.Limit), withoutApplications(q.Used)
			if !q.Limit.Equal(most) || q.Path != "root" && q.State != "RUNNING" || q.Closed {
				t.Fatalf("%+v", q)
			}
			if q.Path == "root" {
				whole = q.Used
			}
			if !slices.Contains(leaves, q.Path) {
				continue
			}
			if used, err = used.Add(q.Used); err != nil {
				t.Fatal(err)
			}
		}
		if len(leaves) > 0 && (used.IsZero() || !used.Equal(whole)) {
			t.Errorf("the root uses %v, its leaves %v", whole, used)
		}
	}
}

// withoutApplications omits the quantities of applications and their masters.
func withoutApplications(v resource.Vector) resource.Vector {
	return v.Without(resource.AMMemory).Without(resource.AMCPU).Without(resource.Applications)
}

func TestTheOtherAnswerHasTheSameQueuesWithOtherFigures(t *testing.T) {
	var both [2][]providers.Queue
	for parity := range both {
		var err error
		if both[parity], err = decode(bytes.NewReader(yarnCluster{queues: 50, parity: parity}.answer())); err != nil {
			t.Fatal(err)
		}
	}
	different := 0
	for i, q := range both[0] {
		if other := both[1][i]; q.Path != other.Path {
			t.Fatalf("%s is %s in the other", q.Path, other.Path)
		} else if !q.Used.Equal(other.Used) {
			different++
		}
	}
	if different < 50 {
		t.Errorf("%d queues differ", different)
	}
}

func TestAResourceManagerServesWhatItWasAskedTo(t *testing.T) {
	m := &resourceManager{answers: map[string][]byte{basePath(5): []byte("five")}}
	for path, want := range map[string]int{
		"/5/ws/v1/cluster/scheduler": http.StatusOK, "/5/ws/v1/cluster/info": http.StatusOK,
		"/6/ws/v1/cluster/scheduler": http.StatusNotFound, "/5/ws/v1/cluster/apps/x": http.StatusNotFound,
	} {
		w := httptest.NewRecorder()
		m.ServeHTTP(w, httptest.NewRequest(http.MethodGet, path, http.NoBody))
		if w.Code != want {
			t.Errorf("%s: %d", path, w.Code)
		}
	}
	if a, err := m.do(t.Context(), order{}); err != nil || len(a.Polls) != 1 {
		t.Errorf("%+v, %v", a, err)
	}
	if a, err := m.do(t.Context(), order{}); err != nil || len(a.Polls) != 0 {
		t.Errorf("once more: %+v, %v", a, err)
	}
}

func TestCallsThatBeginDuringAPoll(t *testing.T) {
	start := time.Unix(1_700_000_000, 0)
	at := func(ms int) int64 { return start.Add(time.Duration(ms) * time.Millisecond).UnixNano() }
	r := &result{}
	for i := range 10 { // 0 to 45 ms, 100 to 145 ms, …
		r.calls = append(r.calls, span{start.Add(time.Duration(100*i) * time.Millisecond), 45*time.Millisecond + time.Duration(i)})
	}
	var begun []time.Duration
	for _, took := range r.begun([]poll{{at(150), at(160)}, {at(745), at(745)}}) {
		begun = append(begun, took-45*time.Millisecond)
	}
	// The coordinator may be busy until 260 ms and until 845 ms; the call at 700 ms began before.
	if want := []time.Duration{2, 8}; !slices.Equal(begun, want) {
		t.Errorf("%v: want %v", begun, want)
	}
}

func TestQueuesInProcessRun(t *testing.T) {
	var out bytes.Buffer
	made, err := newReport(&out)
	if err != nil {
		t.Fatal(err)
	}
	w, err := readWorkload("queues")
	if err != nil {
		t.Fatal(err)
	}
	w.Queues, w.Polled = []int{50, 500}, []int{50}
	r := &run{report: made, short: true, dir: t.TempDir(), log: &out}
	for _, part := range []func(*workload) error{r.decodes, r.takesReports, r.ledgerParts} {
		if err := part(w); err != nil {
			t.Fatal(err)
		}
	}
	for _, line := range []string{"queues/decode-500 ", "queues/report-50-live ", "queues/ledger-parts "} {
		if !strings.Contains(out.String(), line) {
			t.Errorf("no line %s:\n%s", line, out.String())
		}
	}
}
