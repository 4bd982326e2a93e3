package admission

import (
	"log/slog"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"connectrpc.com/connect"
	"github.com/prometheus/client_golang/prometheus"
)

// flooded is a set of limits with a clock of its own.
func flooded(t *testing.T, limits Limits) (c *Controller, at *time.Time, logged *strings.Builder) {
	t.Helper()
	logged = &strings.Builder{}
	now := time.Unix(1000, 0)
	refused := prometheus.NewCounterVec(prometheus.CounterOpts{Name: "refused_total", Help: "Refusals."}, []string{"reason"})
	c = New(limits, Options{Refused: refused, Log: slog.New(slog.NewTextHandler(logged, nil)), Now: func() time.Time { return now }})
	return c, &now, logged
}

func someone(number int) Caller { return Caller{ID: strconv.Itoa(number), Name: "someone@h1"} }

func (c *Controller) granted(caller Caller, n int) (number int) {
	for range n {
		if ended, err := c.Begin(caller); err == nil {
			ended()
			number++
		}
	}
	return number
}

func TestRequestsOfOneUserAreLimited(t *testing.T) {
	c, now, _ := flooded(t, Limits{Rate: 10, Burst: 30, Waiting: 5})
	if got := c.granted(someone(1), 1000); got != 30 {
		t.Errorf("%d at once, want the burst of 30", got)
	}
	if got := c.granted(someone(2), 25); got != 25 {
		t.Errorf("%d of another user, who has done nothing", got)
	}
	*now = now.Add(time.Second)
	if got := c.granted(someone(1), 1000); got != 10 {
		t.Errorf("%d after a second, want the rate of 10", got)
	}
	registry := prometheus.NewRegistry()
	registry.MustRegister(c.refused)
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
	_, err = c.Begin(someone(1))
	if connect.CodeOf(err) != connect.CodeResourceExhausted || !strings.Contains(err.Error(), "too many requests: someone@h1 may have 10 requests a second") {
		t.Errorf("%v", err)
	}
}

// A thousand requests that are refused together return one after the other, so that each is
// accepted: with equal delays, all but one would be refused again.
func TestRefusedRequestsComeAgainInTurns(t *testing.T) {
	c, now, _ := flooded(t, Limits{Rate: 100, Burst: 200})
	if got := c.granted(someone(1), 200); got != 200 {
		t.Fatalf("%d at once, want the burst", got)
	}
	comesAgain := func() time.Duration {
		ended, err := c.Begin(someone(1))
		if err == nil {
			ended()
			return 0
		}
		return TryAgain(err)
	}
	turns := make(map[time.Duration]int)
	var all []time.Duration
	for range 1000 {
		again := comesAgain()
		turns[again]++
		all = append(all, again)
	}
	if len(turns) != 1000 || all[0] != 10*time.Millisecond || slices.Max(all) > lastTurn {
		t.Errorf("%d turns, from %s to %s: want 1000, 10ms apart", len(turns), all[0], slices.Max(all))
	}
	began, refused := *now, 0
	for _, again := range all {
		*now = began.Add(again)
		if comesAgain() > 0 {
			refused++
		}
	}
	if refused > 0 {
		t.Errorf("%d of 1000 came in their turn and were refused again", refused)
	}
	// More than there are turns for share them.
	for range 5000 {
		if again := comesAgain(); again < 10*time.Millisecond || again > lastTurn {
			t.Fatalf("try again in %s: want 10ms to %s", again, lastTurn)
		}
	}
}

// A caller that has used up its rate can still release, at the same rate again.
func TestWhatSettlesAGrantHasARateOfItsOwn(t *testing.T) {
	c, now, _ := flooded(t, Limits{Rate: 10, Burst: 30})
	settled := func(n int) (number int) {
		for range n {
			if ended, err := c.BeginFollowUp(someone(1)); err == nil {
				ended()
				number++
			}
		}
		return number
	}
	if got := c.granted(someone(1), 1000); got != 30 {
		t.Fatalf("%d at once, want the burst of 30", got)
	}
	if got := settled(1000); got != 30 {
		t.Errorf("%d settled at once, want a burst of 30", got)
	}
	*now = now.Add(time.Second)
	if got := settled(1000); got != 10 {
		t.Errorf("%d settled after a second, want the rate of 10", got)
	}
	if got := c.granted(someone(1), 1000); got != 10 {
		t.Errorf("%d after a second, want the rate of 10", got)
	}
}

func TestRefusalsNameTheSettingOfTheirLimit(t *testing.T) {
	c, _, _ := flooded(t, Limits{Rate: 10, Burst: 1, Waiting: 1, Streams: 1})
	c.setting = map[string]string{TooFast: "callers.rate", TooManyWaiting: "callers.waiting"}
	for _, admit := range []struct {
		begin func(Caller) (func(), error)
		want  string
	}{
		{c.Begin, "someone@h1 may have 10 requests a second here (callers.rate): try again in 100ms"},
		{c.BeginFollowUp, "someone@h1 may have 10 requests a second here (callers.rate): try again in 100ms"},
		{c.Wait, "someone@h1 may have 1 requests that wait here (callers.waiting): try again in 5s"},
		{c.Stream, "someone@h1 may have 1 streams here: try again in 5s"},
	} {
		_, _ = admit.begin(someone(1))
		if _, err := admit.begin(someone(1)); err == nil || !strings.Contains(err.Error(), admit.want) {
			t.Errorf("%v: want %s", err, admit.want)
		}
	}
}

func TestNothingIsCountedOnNobody(t *testing.T) {
	c, _, _ := flooded(t, Limits{Rate: 1, Burst: 2, Waiting: 1})
	if got := c.granted(Caller{}, 1000); got != 1000 {
		t.Errorf("%d requests", got)
	}
}

func TestCallsThatWaitAreLimitedUntilTheyEnd(t *testing.T) {
	c, _, _ := flooded(t, Limits{Rate: 1000, Burst: 4, Waiting: 3})
	var ends []func()
	for range 3 {
		ended, err := c.Wait(someone(1))
		if err != nil {
			t.Fatal(err)
		}
		ends = append(ends, ended)
	}
	if _, err := c.Wait(someone(1)); connect.CodeOf(err) != connect.CodeResourceExhausted {
		t.Errorf("beyond the limit: %v", err)
	}
	if _, err := c.Wait(someone(2)); err != nil {
		t.Errorf("another user: %v", err)
	}
	ends[0]()
	if _, err := c.Wait(someone(1)); err != nil {
		t.Errorf("after one has ended: %v", err)
	}
}

func TestRequestsUnderWayAreLimited(t *testing.T) {
	c, now, _ := flooded(t, Limits{Rate: 1000, Burst: 4, Calls: 7})
	var last func()
	for range 7 {
		*now = now.Add(time.Second)
		ended, err := c.Begin(someone(1))
		if err != nil {
			t.Fatal(err)
		}
		last = ended
	}
	*now = now.Add(time.Second)
	if _, err := c.Begin(someone(1)); err == nil {
		t.Error("one that would be the eighth was taken")
	}
	last()
	if _, err := c.Begin(someone(1)); err != nil {
		t.Error(err)
	}
}

func TestUsersBeyondTheTableShareUntilOthersAreForgotten(t *testing.T) {
	c, now, _ := flooded(t, Limits{Rate: 1, Burst: 10, Waiting: 1})
	for uid := range 20 * maxCallers {
		if got := c.granted(someone(1000+uid), 1); got == 0 && uid < maxCallers {
			t.Fatalf("user %d was refused", uid)
		}
	}
	if len(c.accounts) != maxCallers {
		t.Errorf("%d users told apart", len(c.accounts))
	}
	*now = now.Add(time.Minute) // they all would be met like new ones
	if c.granted(someone(7), 1); len(c.accounts) != 1 {
		t.Errorf("%d users are remembered, want the one", len(c.accounts))
	}
}

func TestRefusalsAreLoggedOnceAMinute(t *testing.T) {
	c, now, logged := flooded(t, Limits{Rate: 1, Burst: 1, Waiting: 1})
	for range 3 {
		c.granted(someone(1), 1000)
		*now = now.Add(logEvery)
	}
	if lines := strings.Count(logged.String(), "\n"); lines != 3 {
		t.Errorf("%d lines for three minutes:\n%s", lines, logged)
	}
}

func TestNewLimitsAreInForceForUsersThatAreHere(t *testing.T) {
	c, now, _ := flooded(t, Limits{Rate: 1, Burst: 1, Waiting: 1})
	c.granted(someone(1), 5)
	c.SetLimits(Limits{Rate: 100, Burst: 50, Waiting: 2})
	*now = now.Add(time.Second)
	if got := c.granted(someone(1), 1000); got != 50 {
		t.Errorf("%d, want the new burst", got)
	}
	if _, err := c.Wait(someone(1)); err != nil {
		t.Error(err)
	}
	if _, err := c.Wait(someone(1)); err != nil {
		t.Errorf("the new number of those that wait: %v", err)
	}
}

func TestBytesOfRequestsThatAreUnderWayAreLimited(t *testing.T) {
	const chunk, maxBodies, maxAllBodies = 1 << 20, 4 << 20, 16 << 20
	c, _, _ := flooded(t, Limits{Bytes: maxBodies, AllBytes: maxAllBodies})
	taken := func(caller Caller) (requests []*Intake) {
		for {
			i := c.Intake(caller)
			if i.Add(chunk) != nil {
				i.End()
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
	// No caller has more than the rest for others: the last of it is for a caller that has nothing.
	for i, want := range []int{4, 4, 2, 1, 1, 0} {
		if got := taken(someone(i + 2)); len(got) != want {
			t.Errorf("user %d has %d MiB, want %d", i+2, len(got), want)
		}
	}
	if got := taken(Caller{}); len(got) <= maxAllBodies/chunk {
		t.Error("nobody is limited")
	}
	for _, i := range first {
		i.End()
		i.End() // twice is as once
	}
	if got := taken(someone(99)); len(got) != maxBodies/chunk/2 {
		t.Errorf("%d MiB after others have ended: want half of these", len(got))
	}
}
