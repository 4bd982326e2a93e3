package client

import (
	"slices"
	"testing"
	"time"

	"github.com/bursar/bursar/internal/discovery"
)

// finder knows the coordinators of a test. The first may be the leader.
type finder struct{ list []discovery.Coordinator }

func (f *finder) Coordinators() ([]discovery.Coordinator, <-chan struct{}) { return f.list, nil }

// knows replaces the known coordinators; leader may be empty.
func (f *finder) knows(leader string, urls ...string) {
	f.list = nil
	for _, url := range urls {
		f.list = append(f.list, discovery.Coordinator{URL: url, Leads: url == leader})
	}
	slices.SortStableFunc(f.list, func(a, b discovery.Coordinator) int {
		switch {
		case a.Leads == b.Leads:
			return 0
		case a.Leads:
			return -1
		}
		return 1
	})
}

// chooser is a choice at a time that a test moves.
type chooser struct {
	t *testing.T
	*finder
	*choice
	now time.Time
}

func newChooser(t *testing.T) *chooser {
	f := &finder{}
	return &chooser{t: t, finder: f, choice: newChoice(f), now: time.Unix(1000, 0)}
}

func (c *chooser) next() string {
	c.t.Helper()
	url, err := c.choose(c.now)
	if err != nil {
		c.t.Fatal(err)
	}
	return url
}

func (c *chooser) fail(url string) { c.failed(c.now, url, false) }

func TestCallsGoToTheLeaderAndStayWhereTheyAreAnswered(t *testing.T) {
	c := newChooser(t)
	c.knows("b", "a", "b", "c")
	for range 5 {
		if got := c.next(); got != "b" {
			t.Fatalf("chose %s, want the leader", got)
		}
	}
	c.fail("b")
	other := c.next()
	for range 5 {
		if got := c.next(); got != other || got == "b" {
			t.Errorf("chose %s after the leader failed, then %s", other, got)
		}
	}
	c.knows("c", "a", "b", "c")
	if got := c.next(); got != "c" {
		t.Errorf("chose %s although c is named leader", got)
	}
}

func TestEveryCoordinatorIsTriedBeforeAnyIsTriedAgain(t *testing.T) {
	c := newChooser(t)
	c.knows("", "a", "b", "c", "d")
	var tried []string
	for range 12 {
		url := c.next()
		tried = append(tried, url)
		c.fail(url)
	}
	for round := range 3 {
		of := slices.Sorted(slices.Values(tried[4*round : 4*round+4]))
		if !slices.Equal(of, []string{"a", "b", "c", "d"}) {
			t.Errorf("round %d tried %v", round, tried)
		}
	}
}

func TestFailureOfOneCallSendsAllElsewhereOnce(t *testing.T) {
	c := newChooser(t)
	c.knows("", "a", "b", "c")
	first := c.next()
	c.fail(first)
	second := c.next()
	c.fail(first) // a call that was made before
	if got := c.next(); got != second {
		t.Errorf("chose %s, then %s although it had not failed", second, got)
	}
}

func TestOneThatHangsIsTriedLast(t *testing.T) {
	c := newChooser(t)
	c.knows("", "a", "b", "c")
	hangs := c.next()
	c.failed(c.now, hangs, true)
	for range 10 {
		url := c.next()
		if url == hangs {
			t.Fatalf("chose %s, which hangs", url)
		}
		c.fail(url)
		c.now = c.now.Add(100 * time.Millisecond)
	}
	c.now = c.now.Add(hangsFor)
	if got := c.next(); got != hangs {
		t.Errorf("chose %s, which has failed since the other one hung", got)
	}
}

func TestCallsReturnToALeaderThatIsStillNamed(t *testing.T) {
	c := newChooser(t)
	c.knows("a", "a", "b")
	c.next()
	c.fail("a")
	c.now = c.now.Add(returnAfter)
	if got := c.next(); got != "b" {
		t.Errorf("chose %s, want to stay with b", got)
	}
	c.now = c.now.Add(time.Second)
	if got := c.next(); got != "a" {
		t.Errorf("chose %s, want to return to the leader", got)
	}
}

func TestClientsWithoutALeaderSpread(t *testing.T) {
	chosen := map[string]int{}
	for range 300 {
		c := newChooser(t)
		c.knows("", "a", "b", "c")
		chosen[c.next()]++
	}
	for _, url := range []string{"a", "b", "c"} {
		if chosen[url] < 50 {
			t.Errorf("%v: want about a third each", chosen)
		}
	}
}

func TestWhatIsNotKnownAnyMoreIsNotUsed(t *testing.T) {
	c := newChooser(t)
	if _, err := c.choose(c.now); err == nil {
		t.Error("chose one of none")
	}
	c.knows("", "a")
	c.fail(c.next())
	if got := c.next(); got != "a" {
		t.Errorf("chose %s of one", got)
	}
	c.knows("", "b", "c")
	c.fail(c.next())
	c.next()
	if len(c.failures) != 1 {
		t.Errorf("remembers %v", c.failures)
	}
}

func TestTargetOfAClusterSaysWhereItIs(t *testing.T) {
	f := &finder{}
	if got := nameOf(f); got != "the coordinators" {
		t.Errorf("nobody known: %q", got)
	}
	f.knows("", "http://a:1", "http://b:1")
	if got := nameOf(f); got != "http://a:1, http://b:1" {
		t.Errorf("a list: %q", got)
	}
}
