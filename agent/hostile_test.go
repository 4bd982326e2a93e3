package agent_test

import (
	"errors"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/bursar/bursar/agent"
	bursarv1 "github.com/bursar/bursar/proto/bursar/v1"
)

// mallory and alice are users that this machine does not know.
const (
	mallory = 4711
	alice   = 4712
)

func needsRoot(t *testing.T) {
	t.Helper()
	if os.Geteuid() != 0 {
		t.Fatal("this test plays several users: it needs root")
	}
}

// A flood of one user is refused beyond its rate; what others ask meanwhile is answered, all of
// it.
func TestFloodOfOneUserIsRefusedAndOthersAreAnswered(t *testing.T) {
	needsRoot(t)
	s := newSubject(t)
	s.config.Callers = agent.CallersConfig{Rate: 20, Burst: 50}
	s.start()
	quiet := s.latencies(300)
	began := time.Now()
	flooded := make(chan string, 1)
	go func() { flooded <- s.as(mallory, "flood", "2000", "16") }()
	var busy []time.Duration
	var said string
	for said == "" {
		busy = append(busy, s.latencies(20)...) // fails if one call does
		select {
		case said = <-flooded:
		default:
		}
	}
	took := time.Since(began)
	words := strings.Fields(said)
	refused, err := strconv.Atoi(words[1])
	if err != nil || words[3] != "0" {
		t.Fatal(said)
	}
	most := 50 + int(20*took.Seconds()) + 1
	if taken := 2000 - refused; taken > most {
		t.Errorf("%d requests of the flood were taken in %v, want at most %d", taken, took, most)
	}
	if out := s.as(alice, "allocate"); !strings.HasPrefix(out, "alloc") {
		t.Errorf("another user after the flood: %s", out)
	}
	_, page := s.get(s.http, "/metrics")
	if !strings.Contains(page, `bursar_agent_refused_callers_total{reason="rate"} `+strconv.Itoa(refused)) {
		t.Error("the refused are not counted")
	}
	t.Logf("%d of 2000 refused in %v; p99 of others %v, without the flood %v, over %d calls", refused, took, percentile(busy), percentile(quiet), len(busy))
}

// A user who has used up the rate for requests can still give back what was granted.
func TestWhatWasGrantedCanBeGivenBackAtTheEndOfTheRate(t *testing.T) {
	needsRoot(t)
	s := newSubject(t)
	s.config.Callers = agent.CallersConfig{Rate: 1, Burst: 40}
	s.start()
	if said := s.as(mallory, "settle", "20"); said != "refused 0" {
		t.Errorf("%s: want none of 20 requests", said)
	}
}

// latencies makes calls one after the other, each of which must be answered.
func (s *subject) latencies(n int) []time.Duration {
	s.t.Helper()
	all := make([]time.Duration, n)
	for i := range all {
		began := time.Now()
		if _, err := s.Explain(s.t.Context(), &bursarv1.ExplainRequest{Request: request(1)}); err != nil {
			s.t.Fatal(err)
		}
		all[i] = time.Since(began)
	}
	return all
}

func percentile(all []time.Duration) time.Duration {
	slices.Sort(all)
	return all[len(all)*99/100].Round(time.Microsecond)
}

func TestStrangersSeeTheMetricsAndNotTheMemory(t *testing.T) {
	needsRoot(t)
	s := run(t)
	for path, want := range map[string]string{
		"/metrics": "200", "/healthz": "200", "/readyz": "200",
		"/debug/pprof/": "403", "/debug/pprof/cmdline": "403", "/debug/pprof/heap": "403", "/debug/pprof/profile": "403", "/debug/pprof/trace": "403",
	} {
		if got := s.as(mallory, "get", path); got != want {
			t.Errorf("%s: %s, want %s", path, got, want)
		}
	}
}

func TestTrustThatWasTakenBackIsGoneForConnectionsThatAreOpen(t *testing.T) {
	needsRoot(t)
	s := newSubject(t)
	s.config.TrustedUsers = []string{strconv.Itoa(alice)}
	s.start()
	s.as(alice, "allocate")
	if !s.coordinator.lastActor().Anyone {
		t.Fatal("not trusted")
	}
	config := s.config
	config.TrustedUsers = nil
	if _, err := s.agent.Reload(config); err != nil {
		t.Fatal(err)
	}
	s.as(alice, "allocate")
	if s.coordinator.lastActor().Anyone {
		t.Error("still trusted")
	}
}

func TestSocketPathThatLeadsElsewhereIsRefused(t *testing.T) {
	s := newSubject(t)
	folder := filepath.Dir(s.config.Socket)
	if err := os.MkdirAll(folder, 0o755); err != nil {
		t.Fatal(err)
	}
	target := filepath.Join(folder, "target")
	dead, err := net.ListenUnix("unix", &net.UnixAddr{Name: target, Net: "unix"})
	if err != nil {
		t.Fatal(err)
	}
	dead.SetUnlinkOnClose(false)
	if err := dead.Close(); err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink(target, s.config.Socket); err != nil {
		t.Fatal(err)
	}
	if err := s.runError(); err == nil || !strings.Contains(err.Error(), "is no socket") {
		t.Errorf("%v", err)
	}
	if _, err := os.Lstat(target); err != nil {
		t.Errorf("what the link led to: %v", err)
	}
}

func TestSocketFolderThatEverybodyCanWriteToIsRefused(t *testing.T) {
	s := newSubject(t)
	folder := filepath.Dir(s.config.Socket)
	if err := os.MkdirAll(folder, 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.Chmod(folder, 0o777); err != nil {
		t.Fatal(err)
	}
	var wrong *agent.ConfigError
	if err := s.runError(); !errors.As(err, &wrong) || wrong.Field != "socket" || !strings.Contains(wrong.Want, "pose as the agent") {
		t.Errorf("%v", err)
	}
	if err := os.Chmod(folder, 0o777|os.ModeSticky); err != nil {
		// as /tmp: no user can remove what is another's
		t.Fatal(err)
	}
	s.start()
}

// What another user says of an engine is refused, and must not keep that from being stopped.
func TestConfirmationOfAStrangerDoesNotProtectAnEngine(t *testing.T) {
	needsRoot(t)
	s := run(t)
	a, cmd := s.engine(10, "exec sleep 1000")
	s.coordinator.mu.Lock()
	s.coordinator.refuseConfirm = true
	s.coordinator.mu.Unlock()
	if out := s.as(mallory, "confirm", a.GetId(), "self"); strings.HasPrefix(out, "confirmed") {
		t.Fatal(out)
	}
	if _, err := s.Stop(t.Context(), &bursarv1.StopRequest{Id: a.GetId()}); err != nil {
		t.Fatal(err)
	}
	if err := cmd.Wait(); err == nil || !strings.Contains(err.Error(), "terminated") {
		t.Errorf("%v", err)
	}
}

// Requests that never end must not fill the agent's memory, nor keep others from asking.
func TestRequestsThatDoNotEndTakeLittleMemory(t *testing.T) {
	needsRoot(t)
	s := run(t)
	said := make(chan string, 1)
	go func() { said <- s.as(mallory, "swell") }()
	var out string
	for out == "" {
		s.latencies(5)
		select {
		case out = <-said:
		default:
		}
	}
	if out != "refused 12" { // 4 times 1 MiB less a byte are below 4 MiB
		t.Error(out)
	}
	if out := s.as(mallory, "allocate"); !strings.HasPrefix(out, "alloc") {
		t.Errorf("when they have gone: %s", out)
	}
}
