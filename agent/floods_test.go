package agent

import (
	"log/slog"
	"strings"
	"testing"
	"time"

	"connectrpc.com/connect"
	"github.com/prometheus/client_golang/prometheus"

	"github.com/bursar/bursar/identity"
)

// flooded is a set of limits with a clock of its own.
func flooded(t *testing.T, limits CallersConfig) (f *floods, at *time.Time, logged *strings.Builder) {
	t.Helper()
	logged = &strings.Builder{}
	f, err := newFloods(limits, prometheus.NewRegistry(), slog.New(slog.NewTextHandler(logged, nil)))
	if err != nil {
		t.Fatal(err)
	}
	now := time.Unix(1000, 0)
	f.now = func() time.Time { return now }
	return f, &now, logged
}

func someone(uid uint32) *caller { return newCaller(identity.Actor{Name: "someone@h1"}, uid) }

func (f *floods) taken(c *caller, n int) (granted int) {
	for range n {
		if ended, err := f.begin(c); err == nil {
			ended()
			granted++
		}
	}
	return granted
}

func TestRequestsOfOneUserAreLimited(t *testing.T) {
	f, now, _ := flooded(t, CallersConfig{Rate: 10, Burst: 30, Waiting: 5})
	if got := f.taken(someone(1), 1000); got != 30 {
		t.Errorf("%d at once, want the burst of 30", got)
	}
	if got := f.taken(someone(2), 25); got != 25 {
		t.Errorf("%d of another user, who has done nothing", got)
	}
	*now = now.Add(time.Second)
	if got := f.taken(someone(1), 1000); got != 10 {
		t.Errorf("%d after a second, want the rate of 10", got)
	}
	registry := prometheus.NewRegistry()
	registry.MustRegister(f.refused)
	families, err := registry.Gather()
	if err != nil {
		t.Fatal(err)
	}
	counted := 0.0
	for _, metric := range families[0].GetMetric() {
		counted += metric.GetCounter().GetValue()
	}
	if counted != 970+990 {
		t.Errorf("%v counted", counted)
	}
	_, err = f.begin(someone(1))
	if connect.CodeOf(err) != connect.CodeUnavailable || !strings.Contains(err.Error(), "too many requests: someone@h1 may have 10 requests a second") {
		t.Errorf("%v", err)
	}
}

func TestTrustedCallersAreNotLimitedAndTCPIsOneCaller(t *testing.T) {
	f, _, _ := flooded(t, CallersConfig{Rate: 1, Burst: 2, Waiting: 1})
	boss := newCaller(identity.Actor{Name: "ecm@h1", Anyone: true}, 7)
	if got := f.taken(boss, 1000); got != 1000 {
		t.Errorf("%d of a trusted caller", got)
	}
	for range 2 * maxAllConns {
		if f.connect(boss) == nil {
			t.Fatal("a trusted caller's connection was refused")
		}
	}
	local := newPeers("h1", 0, nil).loopback()
	if got := f.taken(local, 10); got != 2 {
		t.Errorf("%d over TCP, want the burst of one user", got)
	}
}

func TestCallsThatWaitAreLimitedUntilTheyEnd(t *testing.T) {
	f, _, _ := flooded(t, CallersConfig{Rate: 1000, Burst: 4, Waiting: 3})
	var ends []func()
	for range 3 {
		ended, err := f.wait(someone(1))
		if err != nil {
			t.Fatal(err)
		}
		ends = append(ends, ended)
	}
	if _, err := f.wait(someone(1)); connect.CodeOf(err) != connect.CodeUnavailable {
		t.Errorf("beyond the limit: %v", err)
	}
	if _, err := f.wait(someone(2)); err != nil {
		t.Errorf("another user: %v", err)
	}
	ends[0]()
	if _, err := f.wait(someone(1)); err != nil {
		t.Errorf("after one has ended: %v", err)
	}
}

func TestRequestsUnderWayAreLimited(t *testing.T) {
	f, now, _ := flooded(t, CallersConfig{Rate: 1000, Burst: 4, Waiting: 3})
	var last func()
	for range 7 {
		*now = now.Add(time.Second)
		ended, err := f.begin(someone(1))
		if err != nil {
			t.Fatal(err)
		}
		last = ended
	}
	*now = now.Add(time.Second)
	if _, err := f.begin(someone(1)); err == nil {
		t.Error("one that would be the eighth was taken")
	}
	last()
	if _, err := f.begin(someone(1)); err != nil {
		t.Error(err)
	}
}

func TestConnectionsOfOneUserAreLimited(t *testing.T) {
	f, _, _ := flooded(t, CallersConfig{Rate: 1, Burst: 1, Waiting: 1})
	var last func()
	for range maxConns {
		if last = f.connect(someone(1)); last == nil {
			t.Fatal("refused below the limit")
		}
	}
	if f.connect(someone(1)) != nil {
		t.Error("admitted above the limit")
	}
	last()
	last() // a connection is closed more than once
	if f.connect(someone(1)) == nil {
		t.Error("refused although one has left")
	}
	if f.connect(someone(1)) != nil {
		t.Error("one connection was given back twice")
	}
}

// One with subordinate uids can be as many users as there are: what they cost must stay bounded.
func TestManyUsersCostNoMoreThanABoundedTable(t *testing.T) {
	f, _, logged := flooded(t, CallersConfig{Rate: 1, Burst: 10, Waiting: 1})
	conns := 0
	for uid := range uint32(20 * maxUsers) {
		if f.connect(someone(1000+uid)) != nil {
			conns++
		}
	}
	if len(f.users) > maxUsers || conns > maxAllConns {
		t.Errorf("%d users told apart, %d connections", len(f.users), conns)
	}
	if lines := strings.Count(logged.String(), "\n"); lines != 1 {
		t.Errorf("logged %d times that the rest has too many", lines)
	}
}

func TestUsersBeyondTheTableShareUntilOthersAreForgotten(t *testing.T) {
	f, now, _ := flooded(t, CallersConfig{Rate: 1, Burst: 10, Waiting: 1})
	for uid := range uint32(20 * maxUsers) {
		if got := f.taken(someone(1000+uid), 1); got == 0 && uid < maxUsers {
			t.Fatalf("user %d was refused", uid)
		}
	}
	if len(f.users) != maxUsers {
		t.Errorf("%d users told apart", len(f.users))
	}
	*now = now.Add(time.Minute) // they all would be met like new ones
	if f.taken(someone(7), 1); len(f.users) != 1 {
		t.Errorf("%d users are remembered, want the one", len(f.users))
	}
}

func TestRefusalsAreLoggedOnceAMinute(t *testing.T) {
	f, now, logged := flooded(t, CallersConfig{Rate: 1, Burst: 1, Waiting: 1})
	for range 3 {
		f.taken(someone(1), 1000)
		*now = now.Add(toldEvery)
	}
	if lines := strings.Count(logged.String(), "\n"); lines != 3 {
		t.Errorf("%d lines for three minutes:\n%s", lines, logged)
	}
}

func TestNewLimitsAreInForceForUsersThatAreHere(t *testing.T) {
	f, now, _ := flooded(t, CallersConfig{Rate: 1, Burst: 1, Waiting: 1})
	f.taken(someone(1), 5)
	f.limit(CallersConfig{Rate: 100, Burst: 50, Waiting: 2})
	*now = now.Add(time.Second)
	if got := f.taken(someone(1), 1000); got != 50 {
		t.Errorf("%d, want the new burst", got)
	}
	if _, err := f.wait(someone(1)); err != nil {
		t.Error(err)
	}
	if _, err := f.wait(someone(1)); err != nil {
		t.Errorf("the new number of those that wait: %v", err)
	}
}

func TestBytesOfRequestsThatAreUnderWayAreLimited(t *testing.T) {
	f, _, _ := flooded(t, CallersConfig{Rate: 1, Burst: 1, Waiting: 1})
	const chunk = 1 << 20
	taken := func(c *caller) (requests []*intake) {
		for {
			i := f.intake(c)
			if i.take(chunk) != nil {
				i.end()
				return requests
			}
			if requests = append(requests, i); len(requests) > maxAllBodies/chunk {
				return requests
			}
		}
	}
	first := taken(someone(1))
	if len(first) != maxBodies/chunk {
		t.Errorf("one user has %d MiB", len(first))
	}
	for uid := uint32(2); uid <= maxAllBodies/maxBodies; uid++ {
		if got := taken(someone(uid)); len(got) != maxBodies/chunk {
			t.Errorf("user %d has %d MiB", uid, len(got))
		}
	}
	if got := taken(someone(99)); len(got) != 0 {
		t.Errorf("%d MiB beyond what all may have", len(got))
	}
	if got := taken(newCaller(identity.Actor{Name: "ecm@h1", Anyone: true}, 7)); len(got) <= maxAllBodies/chunk {
		t.Error("a trusted caller is limited")
	}
	for _, i := range first {
		i.end()
		i.end() // twice is as once
	}
	if got := taken(someone(99)); len(got) != maxBodies/chunk {
		t.Errorf("%d MiB after others have ended", len(got))
	}
}
