package main

import (
	"bytes"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/bursar/bursar/bench/performance"
)

// instantPeer builds a peer that grants at once; the peer of a real scheduler is in a module of its
// own.
func instantPeer(t *testing.T) string {
	t.Helper()
	program := filepath.Join(t.TempDir(), "instant")
	if out, err := exec.CommandContext(t.Context(), "go", "-C", "peers", "build", "-buildvcs=false", "-o", program, "./instant").CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	return program
}

func TestPeersTakeTurnsWithOurs(t *testing.T) {
	program := instantPeer(t)
	var out bytes.Buffer
	results := filepath.Join(t.TempDir(), "results.json")
	r := &run{
		short: true, dir: t.TempDir(), log: &out, results: results, version: "v1",
		peers: map[string]string{performance.YuniKorn: program, performance.Nomad: ""},
	}
	if err := measure(t.Context(), regexp.MustCompile("^peers-"), r, &out); err != nil {
		t.Fatalf("%v\n%s", err, out.String())
	}
	for _, want := range []string{
		"peers-closed/nomad not measured: ", "\npeers-closed/1000x64-yunikorn ", "\npeers-closed/5000x1-durable-to-yunikorn ",
		"\npeers-burst/1000x2x25000-ledger-to-yunikorn ", "\npeers-deep/25000x64-yunikorn-p99 ",
	} {
		if !strings.Contains(out.String(), want) {
			t.Errorf("a line %q is missing:\n%s", want, out.String())
		}
	}
	got, err := performance.Read(results)
	if err != nil {
		t.Fatal(err)
	}
	if bursts, closed := got.Points(performance.Burst), got.Points(performance.Closed); len(bursts) != 5 || len(closed) != 6 || len(got.Runs) != 3 {
		t.Errorf("the results have the bursts %q and the closed loops %q: want 5 and 6, of all suites", bursts, closed)
	}
}

// A nanosecond is too short even to submit the requests.
func TestABurstThatAPeerDoesNotEndIsABound(t *testing.T) {
	var out bytes.Buffer
	report, err := newReport(&out)
	if err != nil {
		t.Fatal(err)
	}
	r := &run{report: report, log: &out, peers: map[string]string{performance.Nomad: instantPeer(t)}}
	c := &comparison{run: r, results: &performance.Results{}}
	w, err := readWorkload("burst")
	if err != nil {
		t.Fatal(err)
	}
	used := make(map[string]time.Duration)
	for range 2 {
		if err := c.burst(t.Context(), w, burst{Hosts: 1000, Groups: 1000, Requests: 10, Within: 1}, used); err != nil {
			t.Fatalf("%v\n%s", err, out.String())
		}
	}
	at := "1000x1000x10"
	middle, turns := c.results.Median(performance.Burst, at, performance.Nomad)
	if _, ours := c.results.Median(performance.Burst, at, performance.Ledger); !middle.Cut || middle.Granted >= 1 || turns != 1 || ours != 2 {
		t.Errorf("turn %+v, %d of the peer and %d of ours: want one that was cut off, next to 2", middle, turns, ours)
	}
	r.peerLines(c.results, performance.Burst, "grants/s")
	for _, want := range []string{"peers-burst/1000x1000x10-nomad less than ", "(ratio more than "} {
		if !strings.Contains(out.String(), want) {
			t.Errorf("a line with %q is missing:\n%s", want, out.String())
		}
	}
}

// The page shows the results (TestThePageShowsTheResultsFile), which one run printed.
func TestTheLogOfTheRunHasTheResultsOfThePage(t *testing.T) {
	results, err := performance.Read("../docs/performance/results.json")
	if err != nil {
		t.Fatal(err)
	}
	log, err := os.ReadFile("../docs/performance/run.txt")
	if err != nil {
		t.Fatal(err)
	}
	names := make(map[string]bool)
	for _, s := range results.Systems {
		if names[s.Name] {
			t.Errorf("%s was measured in two versions, the second one is %s: want one run", s.Name, s.Version)
		}
		names[s.Name] = true
	}
	var out bytes.Buffer
	report, err := newReport(&out)
	if err != nil {
		t.Fatal(err)
	}
	report.peerLines(results, performance.Closed, "pairs/s")
	report.peerLines(results, performance.Deep, "pairs/s")
	report.peerLines(results, performance.Burst, "grants/s")
	for line := range strings.Lines(out.String()) {
		if !strings.Contains("\n"+string(log), "\n"+line) {
			t.Errorf("the log lacks %s", line)
		}
	}
}

func TestAPeerThatFailsIsNamed(t *testing.T) {
	r := &run{peers: map[string]string{"sleepy": "false"}, log: &bytes.Buffer{}}
	if _, err := r.startPeer(t.Context(), "sleepy", &peerCluster{}); err == nil || !strings.Contains(err.Error(), "sleepy: no answer") {
		t.Errorf("error %v: want one that names the peer", err)
	}
}

func TestAPeersQueuesHaveTheLimitsOfTheWorkload(t *testing.T) {
	w, err := readWorkload("deep-pending")
	if err != nil {
		t.Fatal(err)
	}
	c, err := w.cluster(7, append(w.loopApps(12), peerApp{"full-1", "full-1"}))
	if err != nil {
		t.Fatal(err)
	}
	if c.Hosts != 7 || c.Host != (peerQuantities{64 << 30, 64_000}) || len(c.Apps) != 13 || len(c.Queues) != 11 {
		t.Errorf("%d hosts of %v, %d applications, %d queues: want 7 of 64 GiB and 64 cores, 13, 11", c.Hosts, c.Host, len(c.Apps), len(c.Queues))
	}
	if got, want := c.Queues[10], (peerQueue{Name: "full-1", Limit: peerQuantities{Memory: 32 << 30}}); got != want {
		t.Errorf("queue %+v: want %+v", got, want)
	}
	w, err = readWorkload("closed-loop")
	if err != nil {
		t.Fatal(err)
	}
	if c, err = w.cluster(1, w.loopApps(64)); err != nil {
		t.Fatal(err)
	}
	want := peerQueue{Name: "queue-3", Limit: peerQuantities{4 << 40, 4_000_000}, PerUser: peerQuantities{512 << 30, 400_000}}
	if got := c.Queues[3]; got != want || c.Apps[63] != (peerApp{"queue-3", "user-63"}) {
		t.Errorf("queue %+v and application %+v: want %+v and that of user-63 in queue-3", got, c.Apps[63], want)
	}
}
