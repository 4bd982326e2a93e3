package election

import (
	"slices"
	"strings"
	"testing"
	"time"

	consulserver "github.com/bursar/bursar/test/consul"
	"github.com/bursar/bursar/test/proc"
)

func TestConsulRestartedIsAPauseForLeaderAndStandby(t *testing.T) {
	t.Parallel()
	s := consulserver.Start(t, consulserver.Options{})
	a, b := newCandidate(t, s.Address, "a", brief), newCandidate(t, s.Address, "b", brief)
	term := a.leadKnownTo(t, b)
	leader := Leader{URL: a.options.URL, Epoch: 1, StoreID: storeOne}
	s.Kill()
	await(t, "the end of the term", term.Over())
	if now, _ := b.Leader(); now != leader {
		t.Errorf("while Consul is away the standby knows %+v to lead: want %+v", now, leader)
	}
	if err := s.Restart(t.Context()); err != nil {
		t.Fatal(err)
	}
	if err := term.Resign(t.Context()); err != nil {
		t.Fatal(err)
	}
	b.rule(t)
	a.knowsURL(t, b.options.URL)
	eventually(t, func() bool { return len(passing(t, s, b)) == 2 })
}

func TestConsulThatForgetsEverythingIsToldAgain(t *testing.T) {
	t.Parallel()
	s, other := consulserver.Start(t, consulserver.Options{}), consulserver.Start(t, consulserver.Options{})
	way := inFrontOf(t, s)
	c := newCandidate(t, way.URL, "a", brief)
	term := c.lead(t, 1)
	// the same address, another Consul: its indexes restart, too
	way.answerWith(inFrontOf(t, other).serve)
	await(t, "the end of the term", term.Over())
	if err := term.Resign(t.Context()); err != nil {
		t.Errorf("resign: %v", err)
	}
	c.lead(t, 2)
	if got := passing(t, other, c); !slices.Equal(got, []string{c.registration.ServiceID()}) {
		t.Errorf("healthy in the new Consul: %q", got)
	}
}

func TestConsulPausedEndsTheTermInTime(t *testing.T) {
	t.Parallel()
	s := consulserver.Start(t, consulserver.Options{})
	c := newCandidate(t, s.Address, "a", brief)
	term := c.lead(t, 1)
	if err := s.Pause(); err != nil {
		t.Fatal(err)
	}
	delays, began := proc.Delays(t), time.Now()
	await(t, "the end of the term", term.Over())
	if took := time.Since(began); took > ttl+delays() {
		t.Errorf("the term went on for %v: want less than the TTL, %v", took, ttl)
	}
	if err := s.Continue(); err != nil {
		t.Fatal(err)
	}
	if err := term.Resign(t.Context()); err != nil {
		t.Errorf("resign: %v", err)
	}
	c.lead(t, 2)
}

func TestClusterOfConsulLosesTheServersOneAfterAnother(t *testing.T) {
	t.Parallel()
	servers := consulserver.StartCluster(t, 3, consulserver.Options{})
	all := []*coordinator{newCandidate(t, servers[0].Address, servers[0].Node, brief)}
	for _, s := range servers[1:] {
		all = append(all, newCandidate(t, s.Address, s.Node))
	}
	term := all[0].lead(t, 1)
	next := all[1].campaign(t)
	// the agent of the leader's machine: the check of the machine fails, not the leader's own
	servers[0].Kill()
	began := time.Now()
	await(t, "the end of the term", term.Over())
	second := await(t, "the next leader", next)
	t.Logf("the next leader is there %v after the agent of the last one had died", time.Since(began))
	if err := second.Announce(t.Context(), 2, storeOne); err != nil {
		t.Fatal(err)
	}
	all[2].knows(t, Leader{URL: all[1].options.URL, Epoch: 2, StoreID: storeOne})
	if err := servers[0].Restart(t.Context()); err != nil {
		t.Fatal(err)
	}
	all[0].knows(t, Leader{URL: all[1].options.URL, Epoch: 2, StoreID: storeOne})
	if isOver(second) {
		t.Error("a server that came back has ended the term")
	}
}

func TestTwinsDoNotTakeTheLeadFromEachOther(t *testing.T) {
	t.Parallel()
	// Two machines, each with its own agent of Consul, that were set up alike. The term of the
	// first is long, and servers are declared dead late. Otherwise the term may expire on a busy
	// machine.
	servers := consulserver.StartCluster(t, 3, consulserver.Options{Patient: true})
	one := newCandidate(t, servers[0].Address, "a")
	two := newCandidate(t, servers[1].Address, "a", brief)
	term := one.lead(t, 1)
	next := two.campaign(t)
	eventually(t, func() bool {
		return isOver(term) || strings.Contains(two.log.String(), "at this coordinator's own address")
	})
	if isOver(term) {
		t.Fatal("the second has ended the term of the first")
	}
	if known, _ := two.Leader(); known.URL != "" {
		t.Errorf("the second takes %q for another one's address", known.URL)
	}
	if err := term.Resign(t.Context()); err != nil {
		t.Fatal(err)
	}
	await(t, "a term of the second", next)
	if n := strings.Count(two.log.String(), "at this coordinator's own address"); n != 1 {
		t.Errorf("told %d times: want once", n)
	}
}

func passing(t *testing.T, s *consulserver.Server, c *coordinator) []string {
	t.Helper()
	entries, _, err := admin(t, s).Health().Service(c.client.Service(), "", true, nil)
	if err != nil {
		t.Fatal(err)
	}
	var ids []string
	for _, entry := range entries {
		ids = append(ids, entry.Service.ID)
	}
	return ids
}
