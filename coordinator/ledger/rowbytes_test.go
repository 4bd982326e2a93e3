package ledger

import (
	"fmt"
	"strings"
	"testing"

	"github.com/bursar/bursar/label"
	"github.com/bursar/bursar/resource"
)

// What a row counts as is what its parts take encoded at most, by these sizes; that they are
// enough is tested where rows are encoded. Of what a grant and a confirmation add, the first
// kilobyte counts from the start.
func TestEachPartOfARowCounts(t *testing.T) {
	// what is asked for counts twice, as it is granted as well; and what the row may grow by
	const request, room = 2 * 40, 1024
	text := strings.Repeat("x", 1000)
	countables := func(n int) (v resource.Vector) {
		for i := range n {
			v = v.With(fmt.Sprintf("c%059d", i), 1)
		}
		return v
	}
	parts := func(n int) (list []resource.External) {
		for range n {
			list = append(list, resource.External{Address: resource.Address{Kind: text, Cluster: text, Path: text, Partition: text}, Vector: countables(1)})
		}
		return list
	}
	pairs := label.Set{{Key: text, Value: text}, {Key: text, Value: text}}
	for name, test := range map[string]struct {
		set  func(a *Allocation)
		want int64
	}{
		"nothing":                {func(*Allocation) {}, request + room},
		"a request id":           {func(a *Allocation) { a.RequestID = text }, request + room + 1000},
		"a caller":               {func(a *Allocation) { a.Caller = text }, request + room + 1000},
		"labels":                 {func(a *Allocation) { a.Labels = pairs }, request + room + 2*2012},
		"countables":             {func(a *Allocation) { a.Requested.Vector = countables(3) }, request + room + 2*3*82},
		"parts elsewhere":        {func(a *Allocation) { a.Requested.External = parts(2) }, request + room + 2*2*(16+4000+40+82)},
		"a wish for a host":      {func(a *Allocation) { a.Wishes = &Wishes{Host: text} }, request + room + 1000},
		"required labels":        {func(a *Allocation) { a.Wishes = &Wishes{Required: pairs} }, request + room + 2*2012},
		"preferred labels":       {func(a *Allocation) { a.Wishes = &Wishes{Preferred: pairs} }, request + room + 2*2012},
		"hosts to avoid":         {func(a *Allocation) { a.Wishes = &Wishes{Avoid: []string{text, text}} }, request + room + 2*1003},
		"what it is entitled to": {func(a *Allocation) { a.Entitled.Vector, a.Entitled.External = countables(3), parts(1) }, request + 390 + 3*82 + 16 + 4000 + 40 + 82},
		"its host":               {func(a *Allocation) { a.HostID = text }, request + 390 + 1000},
		"the address of that":    {func(a *Allocation) { a.HostAddress = text }, request + 390 + 1000},
		"a reason":               {func(a *Allocation) { a.Reason = text }, request + 390 + 1000},
		"a reason to stop":       {func(a *Allocation) { a.StopReason = text }, request + 390 + 1000},
		"a cgroup":               {func(a *Allocation) { a.Process.Cgroup = text }, request + 390 + 1000},
		"a boot":                 {func(a *Allocation) { a.Process.BootID = text }, request + 390 + 1000},
		"an address":             {func(a *Allocation) { a.Address = text }, request + 390 + 1000},
		"a claim":                {func(a *Allocation) { a.Claimed = &Claim{Caller: text, RequestID: text, Labels: pairs} }, request + 390 + 32 + 2000 + 2*2012 + 2*40},
		"applications":           {func(a *Allocation) { a.ApplicationIDs = []string{text, text} }, request + 390 + 2*1003},
	} {
		var a Allocation
		test.set(&a)
		if got := a.LiveBytes(); got != test.want {
			t.Errorf("a row with %s counts as %d; want %d", name, got, test.want)
		}
	}
}

// Callers whose names an agent gives are those that end in its host's name, and ask for that host.
func TestCallersOfAnAgentAreKnownByTheirNames(t *testing.T) {
	for _, test := range []struct {
		caller, host string
		relayed      bool
	}{
		{"alice@h1", "h1", true},
		{"@h1", "h1", true},
		{"a@b@h1", "h1", true},
		{"alice@h1", "h2", false},
		{"alice@h1", "", false},
		{"alice@", "", false},
		{"h1", "h1", false},
		{"alice-h1", "h1", false},
		{"1", "h1", false},
	} {
		if a := (Allocation{Caller: test.caller, HostID: "h1", Wishes: &Wishes{Host: test.host}, RequestHash: 1, ReservationTTL: 1}); a.relayed() != test.relayed {
			t.Errorf("%q who asks for %q comes through the agent: %t; want %t", test.caller, test.host, a.relayed(), test.relayed)
		}
	}
}

func TestWhoHasLittleLeftIsFull(t *testing.T) {
	const large, small = 100 << 20, 64 << 10
	for _, test := range []struct {
		bytes, most int64
		full        bool
	}{
		{0, large, false},
		{0, 1, false}, // it is in no table any more
		{1, 1, true},
		{95 << 20, large, false}, // a twentieth is left
		{95<<20 + 1, large, true},
		{large, large, true},
		{large + 1, large, true},
		{46 << 10, small, false}, // the largest request fits
		{46<<10 + 1, small, true},
	} {
		if c := (usage{bytes: test.bytes, most: test.most}); c.full() != test.full {
			t.Errorf("who has %d of %d bytes is full: %t; want %t", test.bytes, test.most, c.full(), test.full)
		}
	}
}

// A single byte more than there is room for is refused, and is counted where it is not asked for.
func TestEachByteOfARowCounts(t *testing.T) {
	w := newAudited(t)
	w.active.Address = strings.Repeat("a", 1000)
	w.recordEntry(w.active)
	next := w.active.Allocation
	next.Address += "a"
	w.cfg.CallerLiveBytes = 1 << 30
	h := w.hosts["h1"]
	has := h.bytesOf(w.active.caller)
	// of the host alone, and then of what its caller may have there
	h.callers, w.cfg.HostLiveBytes = map[*usage]int64{}, h.bytes
	if err := w.mayGrow(w.active, &next); err == nil {
		t.Error("a host gets a byte too much")
	}
	w.cfg.HostLiveBytes++
	if err := w.mayGrow(w.active, &next); err != nil {
		t.Errorf("a host that has room for a byte: %v", err)
	}
	h.callers = nil
	for most, want := range map[int64]bool{2 * has: false, 2*has + 1: false, 2*has + 2: true} {
		w.cfg.HostLiveBytes = most
		if err := w.mayGrow(w.active, &next); (err == nil) != want {
			t.Errorf("a byte more for who has %d of a host's %d: %v", has, most, err)
		}
	}
	w.active.Address = next.Address
	w.recordEntry(w.active)
	for _, v := range w.Audit() {
		if strings.Contains(v.Message, "bytes of each") {
			t.Error(v)
		}
	}

	// All callers of an agent together have what one caller has, and each of them half of it.
	w = newAudited(t)
	a := w.active.Allocation
	a.Caller = "zoe@h1"
	all := w.relays.of("h1")
	for most, want := range map[int64]bool{all + 100: true, all + 99: false} {
		w.cfg.CallerLiveBytes = most
		if err := w.affords(&a, 100); (err == nil) != want {
			t.Errorf("100 bytes more than %d, of %d: %v", all, most, err)
		}
	}
}
