package election

import (
	"context"
	"errors"
	"net"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/hashicorp/consul/api"

	"github.com/bursar/bursar/internal/discovery/consul"
	"github.com/bursar/bursar/test/proc"
)

func TestOneOfThreeLeadsAndAllKnow(t *testing.T) {
	all := []*coordinator{newCandidate(t, shared.Address, "a"), newCandidate(t, shared.Address, "b"), newCandidate(t, shared.Address, "c")}
	won := make(chan int)
	var terms [3]Term
	for i, c := range all {
		term := c.campaign(t)
		go func() {
			select {
			case terms[i] = <-term:
				won <- i
			case <-t.Context().Done():
			}
		}()
	}
	first := await(t, "a leader", won)
	if err := terms[first].Announce(t.Context(), 7, storeOne); err != nil {
		t.Fatal(err)
	}
	for _, c := range all {
		c.knows(t, Leader{URL: all[first].options.URL, Epoch: 7, StoreID: storeOne})
	}
	select {
	case second := <-won:
		t.Fatalf("%d leads at the same time as %d", second, first)
	default:
	}

	delays, began := proc.Delays(t), time.Now()
	if err := terms[first].Resign(t.Context()); err != nil {
		t.Fatal(err)
	}
	second := await(t, "the next leader", won)
	took := time.Since(began)
	t.Logf("planned hand-over: %v", took)
	if second == first || took > time.Second+delays() {
		t.Errorf("%d leads after %d, %v later: want another one within 1s", second, first, took)
	}
}

// A coordinator that must load everything lets a prepared one go first. If there is none, it leads.
func TestAPreparedCoordinatorGoesFirst(t *testing.T) {
	for round := range 4 {
		t.Run(strconv.Itoa(round), func(t *testing.T) {
			leader, prepared := newCandidate(t, shared.Address, "a"), newCandidate(t, shared.Address, "c")
			other := newCandidate(t, shared.Address, "b", func(_ *consul.Config, o *Options) { o.Prepared = func() bool { return false } })
			first := leader.lead(t, 7)
			// Before they campaign: an attempt that began while the key was free is not undone.
			for _, c := range []*coordinator{prepared, other} {
				c.knows(t, Leader{URL: leader.options.URL, Epoch: 7, StoreID: storeOne})
			}
			second, third := prepared.campaign(t), other.campaign(t)
			if err := first.Resign(t.Context()); err != nil {
				t.Fatal(err)
			}
			select {
			case <-third:
				t.Fatal("one that is not prepared leads: want the other one")
			case term := <-second:
				if err := term.Resign(t.Context()); err != nil {
					t.Fatal(err)
				}
			}
			await(t, "the one that is left", third)
		})
	}
}

func TestLeaderIsMarkedInTheCatalogAndInDNS(t *testing.T) {
	c, standby := newCandidate(t, shared.Address, "localhost"), newCandidate(t, shared.Address, "b")
	if err := standby.registration.Registered(t.Context()); err != nil {
		t.Fatal(err)
	}
	c.options.URL = "http://127.0.0.1:7070"
	term := c.lead(t, 3)
	resolver := net.Resolver{PreferGo: true, Dial: func(ctx context.Context, network, _ string) (net.Conn, error) {
		return new(net.Dialer).DialContext(ctx, network, shared.DNS)
	}}
	marked := func() []string {
		t.Helper()
		entries, _, err := admin(t, shared).Health().Service(c.client.Service(), "leader", true, &api.QueryOptions{RequireConsistent: true})
		if err != nil {
			t.Fatal(err)
		}
		var ids []string
		for _, entry := range entries {
			ids = append(ids, entry.Service.ID+" "+entry.Service.Meta["epoch"])
		}
		return ids
	}
	eventually(t, func() bool { return slices.Equal(marked(), []string{c.registration.ServiceID() + " 3"}) })
	_, records, err := resolver.LookupSRV(t.Context(), "", "", "leader."+c.client.Service()+".service.consul.")
	if err != nil || len(records) != 1 || records[0].Port != 7070 {
		t.Errorf("DNS says %v, %v: want one leader at port 7070", records, err)
	}
	if err := term.Resign(t.Context()); err != nil {
		t.Fatal(err)
	}
	eventually(t, func() bool { return len(marked()) == 0 })
	c.end()
	entries, _, err := admin(t, shared).Catalog().Service(c.client.Service(), "", &api.QueryOptions{RequireConsistent: true})
	if err != nil || len(entries) != 1 {
		t.Errorf("%d coordinators in the catalog, %v: want the other one", len(entries), err)
	}
}

// eventually waits for a condition that has no channel.
func eventually(t *testing.T, condition func() bool) {
	t.Helper()
	proc.Until(t, patience, 10*time.Millisecond, "what has no channel to wait on", condition)
}

// At least one of three leaders has a successor as soon as its TTL is over. Consul's agents rarely
// report the failure of a check late, and more often on a busy machine; see the next test.
func TestLeaderThatStopsRenewingIsFollowed(t *testing.T) {
	late := true
	for round := 0; late && round < 3 && !t.Failed(); round++ {
		t.Run(strconv.Itoa(round), func(t *testing.T) {
			a, b := newCandidate(t, shared.Address, "a", brief), newCandidate(t, shared.Address, "b")
			term := a.leadKnownTo(t, b)
			next := b.campaign(t)
			delays, began := proc.Delays(t), time.Now()
			a.dead.Store(true)
			select {
			case <-next:
			case <-time.After(2*sessionTTL(ttl) + patience):
				t.Fatal("nobody follows")
			}
			took := time.Since(began)
			t.Logf("with a TTL of %v the next leader is there %v after the last one stood still", ttl, took)
			if !isOver(term) {
				t.Error("the one before still believes to lead")
			}
			if leader, _ := a.Leader(); leader.URL == a.options.URL {
				t.Error("the one before says that it leads")
			}
			late = took > ttl+2*time.Second+delays()
		})
	}
	if late {
		t.Error("the next leader was late in each round")
	}
}

// Consul's agents report a check's failure late if an earlier report has failed.
func TestLeaderWhoseFailedCheckConsulKeepsToItselfIsFollowed(t *testing.T) {
	t.Parallel()
	way := inFrontOf(t, shared)
	a, b := newCandidate(t, way.URL, "a", brief), newCandidate(t, shared.Address, "b")
	a.leadKnownTo(t, b)
	way.answerWith(cutConnection) // it is gone without a word
	a.end()
	began, ctx := time.Now(), t.Context()
	go func() { // for the agent it is as healthy as ever
		agent := admin(t, shared).Agent()
		pass := time.NewTicker(ttl / 4)
		defer pass.Stop()
		for {
			_ = agent.UpdateTTLOpts(a.registration.CheckID(), "", api.HealthPassing, new(api.QueryOptions).WithContext(ctx))
			select {
			case <-ctx.Done():
				return
			case <-pass.C:
			}
		}
	}()
	bounded, cancel := context.WithTimeout(ctx, 2*sessionTTL(ttl)+patience)
	defer cancel()
	if _, err := b.Campaign(bounded); err != nil {
		t.Fatalf("nobody leads after %v: %v", time.Since(began), err)
	}
	t.Logf("the next leader is there after %v", time.Since(began))
}

// A term ends with its leader, and not only with the TTL of its session.
func TestTermOutlivesItsSessionsTTL(t *testing.T) {
	t.Parallel()
	const own = 10 * time.Second // the longest with the shortest time of a session
	a := newCandidate(t, shared.Address, "a", func(_ *consul.Config, o *Options) { o.TTL = own })
	term := a.lead(t, 1)
	select {
	case <-term.Over():
		t.Fatal("the term is over")
	case <-time.After(2*sessionTTL(own) + ttl):
	}
}

func TestLeaderCutOffFromConsulStepsDownFirst(t *testing.T) {
	for name, answer := range nonsense() {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			way := inFrontOf(t, shared)
			a, b := newCandidate(t, way.URL, "a", brief), newCandidate(t, shared.Address, "b")
			term := a.leadKnownTo(t, b)
			next := b.campaign(t)
			way.answerWith(answer)
			delays, began := proc.Delays(t), time.Now()
			await(t, "the end of the term", term.Over())
			if took := time.Since(began); took > ttl+delays() {
				t.Errorf("the term went on for %v: want less than the TTL, %v", took, ttl)
			}
			second := await(t, "the next leader", next)
			if err := second.Announce(t.Context(), 2, storeOne); err != nil {
				t.Fatal(err)
			}
			way.answerWith(nil)
			if err := term.Resign(t.Context()); err != nil {
				t.Errorf("resign: %v", err)
			}
			a.knows(t, Leader{URL: b.options.URL, Epoch: 2, StoreID: storeOne})
			if isOver(second) {
				t.Error("the end of one term has ended the next")
			}
		})
	}
}

func TestStandbyKeepsTheLeaderWhileConsulTalksNonsense(t *testing.T) {
	for name, answer := range nonsense() {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			way := inFrontOf(t, shared)
			a, b := newCandidate(t, shared.Address, "a"), newCandidate(t, way.URL, "b")
			term := a.lead(t, 1)
			leader := Leader{URL: a.options.URL, Epoch: 1, StoreID: storeOne}
			b.knows(t, leader)
			next := b.campaign(t)
			_, changed := b.Leader()
			way.answerWith(answer)
			eventually(t, func() bool { return strings.Contains(b.log.String(), "what is known stays in use") })
			if now, _ := b.Leader(); now != leader {
				t.Errorf("the standby knows %+v to lead: want %+v", now, leader)
			}
			select {
			case <-changed:
				t.Error("the standby says that the leader has changed")
			default:
			}
			way.answerWith(nil)
			if err := term.Resign(t.Context()); err != nil {
				t.Fatal(err)
			}
			await(t, "the standby's own term", next)
		})
	}
}

func TestOperatorEndsTheTerm(t *testing.T) {
	for name, end := range map[string]func(t *testing.T, c *coordinator) error{
		"session destroyed": func(t *testing.T, c *coordinator) error {
			_, err := admin(t, shared).Session().Destroy(holder(t, shared, c), nil)
			return err
		},
		"key deleted": func(t *testing.T, c *coordinator) error {
			_, err := admin(t, shared).KV().Delete(c.key(), nil)
			return err
		},
		"key overwritten": func(t *testing.T, c *coordinator) error {
			// A plain write keeps the lock; only a release removes it.
			_, _, err := admin(t, shared).KV().Release(&api.KVPair{Key: c.key(), Value: []byte("x"), Session: holder(t, shared, c)}, nil)
			return err
		},
		"service deregistered": func(t *testing.T, c *coordinator) error {
			return admin(t, shared).Agent().ServiceDeregister(c.registration.ServiceID())
		},
	} {
		t.Run(name, func(t *testing.T) {
			c := newCandidate(t, shared.Address, "a")
			term := c.lead(t, 1)
			delays, began := proc.Delays(t), time.Now()
			if err := end(t, c); err != nil {
				t.Fatal(err)
			}
			await(t, "the end of the term", term.Over())
			if took := time.Since(began); took > time.Second+delays() {
				t.Errorf("noticed after %v", took)
			}
			if err := term.Announce(t.Context(), 2, storeOne); err == nil {
				t.Error("a term that is over was announced")
			}
			if err := term.Resign(t.Context()); err != nil {
				t.Errorf("resign: %v", err)
			}
			c.lead(t, 2)
			c.knows(t, Leader{URL: c.options.URL, Epoch: 2, StoreID: storeOne})
		})
	}
}

func TestCoordinatorTakesBackWhatItLeftBehind(t *testing.T) {
	way := inFrontOf(t, shared)
	before := newCandidate(t, way.URL, "a")
	before.lead(t, 1)
	way.answerWith(cutConnection) // what it was is gone without a word
	before.end()
	session := holder(t, shared, before)
	after := newCandidate(t, shared.Address, "a")
	began := time.Now()
	after.lead(t, 2)
	t.Logf("leads %v after its start", time.Since(began))
	if now := holder(t, shared, after); now == session {
		t.Error("it leads by the session of its earlier start")
	}
}

func TestTermThatCouldNotBeResignedIsTakenBack(t *testing.T) {
	way := inFrontOf(t, shared)
	c := newCandidate(t, way.URL, "a")
	term := c.lead(t, 1)
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if err := term.Resign(ctx); err == nil {
		t.Fatal("it was resigned without a call")
	}
	c.lead(t, 2)
}

func TestKeyThatSaysNothingIsNobody(t *testing.T) {
	c := newCandidate(t, shared.Address, "a")
	other := admin(t, shared)
	session, _, err := other.Session().Create(&api.SessionEntry{}, nil)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _, _ = other.Session().Destroy(session, nil) }()
	for _, value := range []string{"", "{}", "<html>", `{"url":"bursar-1"}`, `{"url":7}`} {
		if ok, _, err := other.KV().Acquire(&api.KVPair{Key: c.key(), Value: []byte(value), Session: session}, nil); !ok || err != nil {
			t.Fatal(ok, err)
		}
		eventually(t, func() bool { c.mu.Lock(); defer c.mu.Unlock(); return c.reading.holder == session })
		c.knows(t, Leader{})
	}
	if ok, _, err := other.KV().Acquire(&api.KVPair{Key: c.key(), Value: []byte(`{"url":"https://B:1/","epoch":4}`), Session: session}, nil); !ok || err != nil {
		t.Fatal(ok, err)
	}
	c.knows(t, Leader{URL: "https://b:1", Epoch: 4})
	if !strings.Contains(c.log.String(), "does not say who leads") {
		t.Error("nothing was logged")
	}
}

// Consul's locks are advisory: any client with write permission can write the key while another one
// holds it.
func TestLeaderCorrectsWhatSomebodyElseWrites(t *testing.T) {
	a, b := newCandidate(t, shared.Address, "a"), newCandidate(t, shared.Address, "b")
	term := a.lead(t, 4)
	want := Leader{URL: a.options.URL, Epoch: 4, StoreID: storeOne}
	b.knows(t, want)
	for _, value := range []string{`{"url":"http://rogue:1","epoch":281474976710655}`, "garbage", "", `{"url":"` + a.options.URL + `","epoch":99}`} {
		if _, err := admin(t, shared).KV().Put(&api.KVPair{Key: a.key(), Value: []byte(value)}, nil); err != nil {
			t.Fatal(err)
		}
		// long before its next pass; b may not see it
		proc.Until(t, longTTL/6, 10*time.Millisecond, "the leader corrects the key", func() bool {
			pair, _, err := admin(t, shared).KV().Get(a.key(), nil)
			return err == nil && pair != nil && string(pair.Value) != value
		})
		if leader, _ := a.Leader(); leader != want {
			t.Errorf("the leader takes %+v for the leader", leader)
		}
		b.knows(t, want)
	}
	if isOver(term) {
		t.Error("the term has ended")
	}
	if !strings.Contains(a.log.String(), "somebody else has written") {
		t.Errorf("the log says %s", a.log)
	}
}

// A lost announcement is repeated, and is not attributed to another writer.
func TestLeaderMakesALostAnnouncementAgain(t *testing.T) {
	t.Parallel()
	way := inFrontOf(t, shared)
	a := newCandidate(t, way.URL, "a", func(_ *consul.Config, o *Options) { o.TTL = 10 * time.Second }) // its next pass makes it
	b := newCandidate(t, shared.Address, "b")
	term := a.lead(t, 4)
	b.knows(t, Leader{URL: a.options.URL, Epoch: 4, StoreID: storeOne})
	way.answerWith(cutConnection)
	if err := term.Announce(t.Context(), 5, storeOne); err == nil || errors.Is(err, errOver) {
		t.Fatalf("error %v: want one that says that Consul does not answer", err)
	}
	way.answerWith(nil)
	b.knows(t, Leader{URL: a.options.URL, Epoch: 5, StoreID: storeOne})
	if strings.Contains(a.log.String(), "somebody else has written") {
		t.Errorf("the log says %s", a.log)
	}
}

func TestLeaderWithoutTLSIsNobodyToThoseThatHaveIt(t *testing.T) {
	secure := newCandidate(t, shared.Address, "a", func(_ *consul.Config, o *Options) { o.URL = "https://a.example.com:7070" })
	plain := newCandidate(t, shared.Address, "b")
	plain.lead(t, 4)
	plain.knows(t, Leader{URL: plain.options.URL, Epoch: 4, StoreID: storeOne})
	eventually(t, func() bool { return strings.Contains(secure.log.String(), "does not say who leads") })
	secure.knows(t, Leader{})
	if !strings.Contains(secure.log.String(), "want https://") {
		t.Errorf("the log says %s", secure.log)
	}
}
