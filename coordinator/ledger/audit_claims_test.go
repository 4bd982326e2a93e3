package ledger

import (
	"strings"
	"testing"
	"time"

	"github.com/bursar/bursar/internal/identity"
	"github.com/bursar/bursar/label"
	"github.com/bursar/bursar/resource"
)

// lines is a ledger in which each user has a quota of 10 bytes in a line of jobs, some of it in
// use, and waits for all of it; one byte went to another who came later. Everybody is starved when
// 30 s are over.
type lines struct {
	*Ledger

	t     *testing.T
	users []string
	waits []*entry
}

func newLines(t *testing.T, users ...string) *lines {
	t.Helper()
	w := &lines{Ledger: New(Config{}, noPlacer{}), t: t, users: users}
	selector, err := label.ParseSelector("line=*")
	w.check(err)
	w.check(w.PutQuota(1, Quota{Selector: selector, Limit: resource.Vector{}.WithMemory(10)}))
	_, err = w.Register(1, RegisterCommand{HostID: "h1", Incarnation: 1, Capacity: resource.Vector{}.WithMemory(1 << 20)})
	w.check(err)
	w.beat(1)
	for _, user := range users {
		w.ask("runner", user, 1)
		w.waits = append(w.waits, w.ask(user, user, 10))
		w.ask("small", user, 1)
	}
	return w
}

func (w *lines) check(err error) {
	w.t.Helper()
	if err != nil {
		w.t.Fatal(err)
	}
}

func (w *lines) beat(now Instant) {
	w.t.Helper()
	available := int64(1 << 20)
	_, err := w.Sync(now, SyncCommand{HostID: "h1", Incarnation: 1, Sequence: uint64(now), Full: now == 1, Sample: &Sample{MemoryAvailable: &available, Time: now}})
	w.check(err)
}

// ask asks for memory in a line of jobs.
func (w *lines) ask(user, line string, memory int64) *entry {
	w.t.Helper()
	result, err := w.Allocate(1, AllocateCommand{
		Actor: identity.Local(), Labels: label.Of("user", user, "line", line), Wishes: &Wishes{Host: "h1"},
		Resource: resource.NewResource(resource.Vector{}.WithMemory(memory)), Wait: 24 * time.Hour, Async: true, ReservationTTL: 24 * time.Hour,
	})
	w.check(err)
	return w.entry(result.Allocation.ID)
}

// starve lets the time pass after which everybody is starved.
func (w *lines) starve() Instant {
	w.t.Helper()
	now := Instant(1).Add(30 * time.Second)
	w.beat(now - 1)
	w.Advance(now)
	return now
}

// One step visits a few of the starved, in their order; the next ones go on, and leave out nobody.
func TestTheStarvedAreVisitedInSteps(t *testing.T) {
	w := newLines(t, strings.Split("a b c d e f g h i j k l m n o p q r s t", " ")...)
	now := w.starve()
	for step, want := range []int{visitsPerStep, 2 * visitsPerStep, len(w.users), len(w.users)} {
		for i, e := range w.waits {
			if held := e.claim != nil; held != (i < want) {
				t.Errorf("step %d: the request of %s has a hold: %t; want holds for the first %d", step, w.users[i], held, want)
			}
		}
		if due, set := w.NextTimer(); (set && due <= now) != (want < len(w.users)) {
			t.Errorf("step %d: it goes on at %d; it is %d, and %d have a hold", step, due, now, want)
		}
		w.Advance(now)
	}
}

// Who has ended in the meantime is left out, and rules that are replaced begin another round.
func TestARoundOfVisitsOutlivesWhatChanges(t *testing.T) {
	w := newLines(t, strings.Split("a b c d e f g h i j k l", " ")...)
	now := w.starve()
	_, err := w.Cancel(now, CancelCommand{Actor: identity.Local(), ID: w.waits[9].ID})
	w.check(err)
	other, err := label.ParseSelector("team=*")
	w.check(err)
	w.check(w.PutQuota(now, Quota{Selector: other, Limit: resource.Vector{}.WithMemory(1 << 20)}))
	for range 10 {
		w.Advance(now)
	}
	for _, at := range []Instant{now.Add(29 * time.Second), now.Add(30 * time.Second)} {
		w.beat(at)
		for range 10 {
			w.Advance(at)
		}
	}
	if n := len(w.claims); n != 11 {
		t.Errorf("%d holds; want 11", n)
	}
	for _, v := range w.Audit() {
		t.Errorf("audit: invariant %d: %s", v.Invariant, v.Message)
	}
}

// If nothing helps the first ones of a share, because its own engines are in their way, the others
// have their turn.
func TestNothingHelpsSomeAndTheOthersHaveTheirTurn(t *testing.T) {
	w := newLines(t)
	own := []string{"v", "w", "x", "y", "z"}
	for _, line := range append(own, "good") {
		w.ask(map[bool]string{true: "runner", false: "a"}[line == "good"], line, 1)
		w.waits = append(w.waits, w.ask("a", line, 10))
		w.ask("small", line, 1)
	}
	now := w.starve()
	for due, set := w.NextTimer(); set && due <= now; due, set = w.NextTimer() {
		w.Advance(now)
	}
	if len(w.claims) != 1 || w.claims[0].entry != w.waits[5] {
		t.Errorf("%d holds; want one, for the last", len(w.claims))
	}
}

// The audit finds each mistake in the holds.
func TestTheAuditFindsMistakesInHolds(t *testing.T) {
	for name, test := range map[string]struct {
		spoil func(w *lines, c *claim)
		says  string
	}{
		"nothing":          {func(*lines, *claim) {}, ""},
		"it has ended":     {func(_ *lines, c *claim) { c.until = c.since }, "lasts from"},
		"not starved":      {func(w *lines, c *claim) { w.removeStarved(c.entry) }, "starved false"},
		"a lost account":   {func(_ *lines, c *claim) { c.held[0].account.claim = nil }, "does not know that"},
		"a second hold":    {func(w *lines, c *claim) { w.holders.byShare[c.share.key].shared = w.claims[1] }, "is one of several of its share ua"},
		"nobody's hold":    {func(w *lines, c *claim) { delete(w.holders.byShare, c.share.key) }, "is not known of its share ua"},
		"during a rest":    {func(w *lines, c *claim) { w.holders.byShare[c.share.key].rests = c.since + 1 }, "its share ua rests until"},
		"two at a time":    {func(w *lines, c *claim) { w.holders.byShare[c.share.key].claims++ }, "is one of 2 of its share ua, which has one on shared accounts"},
		"while it rests":   {func(w *lines, c *claim) { w.holders.byShare[c.share.key].closed = c.since + 1 }, "its share ua has none until"},
		"shared unnoticed": {func(_ *lines, c *claim) { c.shared = 0 }, "is on shared accounts true, and says since 0"},
		"too many hosts": {func(w *lines, c *claim) {
			for _, id := range []string{"h1", "h2"} {
				w.hosts[id].account.claim = c
				c.held = append(c.held, charge{account: &w.hosts[id].account})
				w.claimedHosts = append(w.claimedHosts, w.hosts[id])
			}
		}, "2 hosts are held, and it lists 2; at most 1 of 2 may be"},
		"an unlisted host": {func(w *lines, c *claim) {
			w.hosts["h1"].account.claim = c
			c.held = append(c.held, charge{account: &w.hosts["h1"].account})
		}, "1 hosts are held, and it lists 0"},
	} {
		w := newLines(t, "a", "b")
		_, err := w.Register(1, RegisterCommand{HostID: "h2", Incarnation: 1, Capacity: resource.Vector{}.WithMemory(1)})
		w.check(err)
		w.starve()
		test.spoil(w, w.claims[0])
		found := w.Audit()
		says := test.says == "" && len(found) == 0
		for _, v := range found {
			says = says || test.says != "" && v.Invariant == 12 && strings.Contains(v.Message, test.says)
		}
		if !says {
			t.Errorf("%s: found %v; want invariant 12: %q", name, found, test.says)
		}
	}
}

// What is kept of shares for which something was held is forgotten when they have rested. Who was
// held for before others were forgotten still comes before who is not known.
func TestHoldersAreForgotten(t *testing.T) {
	w := newLines(t, "a", "b")
	now := w.starve()
	_, err := w.Cancel(now.Add(5*time.Second), CancelCommand{Actor: identity.Local(), ID: w.waits[0].ID})
	w.check(err)
	if got := w.holders.last("ua"); got != now.Add(5*time.Second) {
		t.Errorf("something was last held for a at %d; want %d", got, now.Add(5*time.Second))
	}
	if may, rests := w.holders.mayHold("ua", true, 0, now.Add(9*time.Second)); may || rests != now.Add(10*time.Second) {
		t.Errorf("a may hold: %t, it rests until %d; want until %d", may, rests, now.Add(10*time.Second))
	}
	w.beat(now.Add(12 * time.Second))
	_, err = w.Cancel(now.Add(12*time.Second), CancelCommand{Actor: identity.Local(), ID: w.waits[1].ID})
	w.check(err)
	if n := len(w.holders.byShare); n != 1 {
		t.Errorf("%d holders; want that of b", n)
	}
	if got := w.holders.last("unknown"); got != now.Add(5*time.Second) {
		t.Errorf("who is not known counts as held at %d; want %d", got, now.Add(5*time.Second))
	}
}
