package ledger

import (
	"fmt"
	"testing"

	"pgregory.net/rapid"
)

func TestRequestIDsOfDifferentCallersDiffer(t *testing.T) {
	keys := map[requestKey]string{}
	for _, pair := range [][2]string{{"a", "bc"}, {"ab", "c"}, {"", "abc"}, {"abc", "x"}, {"a", "b"}} {
		key := keyOf(pair[0], pair[1])
		if other, taken := keys[key]; taken {
			t.Errorf("%q has the key of %s", pair, other)
		}
		keys[key] = fmt.Sprint(pair)
	}
	if keyOf("a", "") != noRequest {
		t.Error("no request id has a key")
	}
}

// A request id is known from its begin to the end of its retention after the last end, whatever came before.
func TestRequestsAreRememberedForTheirTime(t *testing.T) {
	const retention = 20
	rapid.Check(t, func(t *rapid.T) {
		r := newRequests()
		model := map[string]request{}
		now, id := Instant(1), ID(0)
		names := rapid.SampledFrom([]string{"a", "b", "c", "d"})
		t.Repeat(map[string]func(*rapid.T){
			"open": func(t *rapid.T) {
				name := names.Draw(t, "name")
				if model[name].live() {
					return
				}
				id++
				model[name] = request{hash: 7, id: id}
				r.open(keyOf("", name), 7, id)
			},
			"return": func(t *rapid.T) { // an engine turns out to run on
				name := names.Draw(t, "name")
				if q := model[name]; q.id != 0 && !q.live() {
					model[name] = request{hash: q.hash, id: q.id}
					r.open(keyOf("", name), q.hash, q.id)
				}
			},
			"end": func(t *rapid.T) {
				name := names.Draw(t, "name")
				if q := model[name]; q.live() {
					model[name] = request{hash: q.hash, id: q.id, until: now + retention}
					r.remember(keyOf("", name), q.hash, q.id, now+retention)
				}
			},
			"drop": func(t *rapid.T) {
				name := names.Draw(t, "name")
				if q := model[name]; q.live() {
					delete(model, name)
					r.drop(keyOf("", name), q.id)
				}
			},
			"time": func(t *rapid.T) {
				now += Instant(rapid.IntRange(1, retention).Draw(t, "passes"))
				for name, q := range model {
					if !q.live() && q.until <= now {
						delete(model, name)
					}
				}
				r.forget(now)
			},
			"": func(t *rapid.T) {
				live := 0
				for _, name := range []string{"a", "b", "c", "d"} {
					if got := r.find(keyOf("", name)); got != model[name] {
						t.Fatalf("of %s is known %+v: want %+v", name, got, model[name])
					}
					if model[name].live() {
						live++
					}
				}
				if r.ended() != len(model)-live {
					t.Fatalf("%d are remembered: want %d", r.ended(), len(model)-live)
				}
				if at, waits := r.next(); waits && at <= now {
					t.Fatalf("at %d something is due at %d", now, at)
				}
			},
		})
	})
}

func TestForgettingsComeInTheirOrder(t *testing.T) {
	var q forgettings
	next, last := Instant(0), Instant(0)
	for range 3 { // more blocks than one, empty in between
		for range 1500 {
			next++
			q.push(forgetting{at: next})
		}
		for range 1200 {
			last++
			if f, ok := q.first(); !ok || f.at != last {
				t.Fatalf("first is %d, %v: want %d", f.at, ok, last)
			}
			q.pop()
		}
	}
	for last < next {
		last++
		if f, ok := q.first(); !ok || f.at != last {
			t.Fatalf("first is %d, %v: want %d", f.at, ok, last)
		}
		q.pop()
	}
	if f, ok := q.first(); ok {
		t.Fatalf("%+v is left", f)
	}
	q.push(forgetting{at: 7})
	if f, ok := q.first(); !ok || f.at != 7 {
		t.Fatalf("first is %d, %v: want 7", f.at, ok)
	}
}
