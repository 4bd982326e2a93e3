package ledger

import (
	"slices"
	"testing"

	"pgregory.net/rapid"
)

// knownRequest is a request id in the obvious model: of a live allocation, or remembered until a
// moment.
type knownRequest struct {
	id    ID
	until Instant
}

func TestRequestIDsAreKnownWhileLiveAndRememberedForAWhile(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		r := newRequests()
		model := make(map[string]knownRequest)
		now, next := Instant(1), ID(0)
		name := rapid.SampledFrom([]string{"a", "b", "c"})
		t.Repeat(map[string]func(*rapid.T){
			"open": func(t *rapid.T) {
				if id := name.Draw(t, "request"); model[id].id == 0 || model[id].until != 0 {
					next++
					r.add(keyOf("caller", id), 7, next)
					model[id] = knownRequest{id: next}
				}
			},
			"end": func(t *rapid.T) {
				if id := name.Draw(t, "request"); model[id].id != 0 && model[id].until == 0 {
					r.remember(keyOf("caller", id), 7, model[id].id, now+10)
					model[id] = knownRequest{model[id].id, now + 10}
				}
			},
			"end one whose request id is another's by now": func(t *rapid.T) {
				if id := name.Draw(t, "request"); model[id].id != 0 && model[id].until == 0 {
					r.remember(keyOf("caller", id), 7, 999, now+10)
					r.drop(keyOf("caller", id), 999)
				}
			},
			"drop": func(t *rapid.T) {
				if id := name.Draw(t, "request"); model[id].id != 0 && model[id].until == 0 {
					r.drop(keyOf("caller", id), model[id].id)
					delete(model, id)
				}
			},
			"time passes": func(t *rapid.T) {
				now += Instant(rapid.IntRange(0, 6).Draw(t, "by"))
				r.expire(now)
				for id, k := range model {
					if k.until != 0 && k.until <= now {
						delete(model, id)
					}
				}
			},
			"": func(t *rapid.T) {
				live, first := 0, Instant(0)
				for _, id := range []string{"a", "b", "c"} {
					got, want := r.find(keyOf("caller", id)), model[id]
					if got.id != want.id || r.expiries.at(got.node).until != want.until || got.live() != (want.id != 0 && want.until == 0) {
						t.Fatalf("%s is %+v, until %d; want %+v", id, got, r.expiries.at(got.node).until, want)
					}
					if got.live() {
						live++
					}
					if other := r.isOther(want.id, keyOf("caller", "d")); other != (want.until != 0) || r.isOther(want.id, keyOf("caller", id)) {
						t.Fatalf("%s is another request's: %t, or its own", id, other)
					}
					if want.until != 0 && (first == 0 || want.until < first) {
						first = want.until
					}
				}
				if r.live != live || len(r.ended) != len(model)-live {
					t.Fatalf("%d are live, %d remembered; want %d and %d", r.live, len(r.ended), live, len(model)-live)
				}
				if at, waits := r.next(); waits != (first != 0) || at != first {
					t.Fatalf("at %d the next is due at %d, %t; want %d", now, at, waits, first)
				}
			},
		})
	})
}

func TestNoTwoRequestsShareAKey(t *testing.T) {
	keys := make(map[requestKey]string)
	for _, caller := range []string{"", "a", "ab", "alice", "\x05alice"} {
		for _, id := range []string{"a", "b", "bc", "alice", "\x01a"} {
			key := keyOf(caller, id)
			if other, taken := keys[key]; taken || key == noRequest {
				t.Errorf("%q of %q has the key of %s", id, caller, other)
			}
			keys[key] = id + " of " + caller
		}
	}
	if keyOf("alice", "") != noRequest {
		t.Error("no request id has a key")
	}
}

func TestARequestWithoutAnIDIsNotKnown(t *testing.T) {
	r := newRequests()
	r.add(noRequest, 7, 1)
	if got := r.find(noRequest); got != (request{}) || r.live != 0 || len(r.ended) != 0 {
		t.Errorf("while it is live it is known as %+v, %d live, %d remembered", got, r.live, len(r.ended))
	}
	r.remember(noRequest, 7, 1, 10)
	if _, waits := r.next(); waits || r.find(noRequest) != (request{}) || r.live != 0 || len(r.ended) != 0 {
		t.Errorf("after its end it is known as %+v, %d live, %d remembered", r.find(noRequest), r.live, len(r.ended))
	}
}

// A day's ends are millions, and some come back and end once more: they come out in order, however
// many blocks they fill, and what was taken out leaves its place to another.
func TestForgettingsComeOutAsTheyWentIn(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		l := newExpiryList()
		var model []nodeIndex
		in, most := Instant(0), 0
		many := rapid.SampledFrom([]int{0, 1, 511, 512, 513, 1024, 1500})
		for range rapid.IntRange(1, 12).Draw(t, "rounds") {
			for range many.Draw(t, "in") {
				in++
				model = append(model, l.add(requestKey{}, in))
			}
			most = max(most, len(model))
			for range min(len(model), many.Draw(t, "out")) {
				at := rapid.SampledFrom([]int{0, len(model) / 2, len(model) - 1}).Draw(t, "which")
				l.remove(model[at])
				model = slices.Delete(model, at, at+1)
			}
			var got []nodeIndex
			for at := l.at(0).next; at != 0; at = l.at(at).next {
				if before := l.at(at).before; l.at(before).next != at || l.at(at).until <= l.at(before).until {
					t.Fatalf("%d, until %d, comes behind %d, until %d", at, l.at(at).until, before, l.at(before).until)
				}
				got = append(got, at)
			}
			if !slices.Equal(got, model) {
				t.Fatalf("%d are in it; want %d: %v, %v", len(got), len(model), got, model)
			}
			if int(l.used) != most+1 {
				t.Fatalf("there are %d places; no more than %d were in it at a time", l.used, most)
			}
		}
	})
}

// TestWhatComesBackAndEndsAgainIsRememberedOnce: a host can bring back an ended allocation as
// often as it likes.
func TestWhatComesBackAndEndsAgainIsRememberedOnce(t *testing.T) {
	r := newRequests()
	key := keyOf("caller", "r")
	for range 1000 {
		r.add(key, 7, 1)
		r.remember(key, 7, 1, 10)
	}
	if places := r.expiries.used - 1; places != 1 || len(r.ended) != 1 {
		t.Errorf("%d are to be forgotten of %d that are remembered", places, len(r.ended))
	}
}

// Of two that ended with one request id the later one is remembered, until its own time.
func TestWhatEndsLastWithAnIDIsRemembered(t *testing.T) {
	r := newRequests()
	key := keyOf("caller", "r")
	r.remember(key, 7, 1, 10)
	r.remember(key, 7, 2, 20)
	r.expire(10)
	if q := r.find(key); q.id != 2 || len(r.ended) != 1 || r.expiries.used != 2 {
		t.Errorf("after the first one's time: %+v, %d remembered, %d places", q, len(r.ended), r.expiries.used)
	}
	r.expire(20)
	if q := r.find(key); q.id != 0 || len(r.ended) != 0 {
		t.Errorf("after its own: %+v, %d remembered", q, len(r.ended))
	}
}

func TestTheListOfForgettingsHasNoMoreBlocksThanItNeeds(t *testing.T) {
	l := newExpiryList()
	for n := 1; n < 5*nodesPerBlock; n++ {
		l.add(noRequest, Instant(n))
		if want := n/nodesPerBlock + 1; len(l.blocks) != want {
			t.Fatalf("%d have %d blocks, want %d", n, len(l.blocks), want)
		}
	}
}
