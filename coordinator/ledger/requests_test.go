package ledger

import (
	"testing"

	"pgregory.net/rapid"
)

// knownRequest is a request id in the obvious model: of a live allocation, or remembered until a moment.
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
					r.open(keyOf("caller", id), 7, next)
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
				r.forget(now)
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
					if got.id != want.id || got.until != want.until || got.live() != (want.id != 0 && want.until == 0) {
						t.Fatalf("%s is %+v; want %+v", id, got, want)
					}
					if got.live() {
						live++
					}
					if want.until != 0 && (first == 0 || want.until < first) {
						first = want.until
					}
				}
				if r.live != live || r.ended() != len(model)-live {
					t.Fatalf("%d are live, %d remembered; want %d and %d", r.live, r.ended(), live, len(model)-live)
				}
				if at, waits := r.next(); first != 0 && (!waits || at > first) || waits && at <= now {
					t.Fatalf("at %d the next is due at %d, %t; want %d at the latest", now, at, waits, first)
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

// A day's ends are millions: they come out in order, however many blocks they fill.
func TestForgettingsComeOutAsTheyWentIn(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		var q forgettings
		in, out := Instant(0), Instant(0)
		for range rapid.IntRange(1, 12).Draw(t, "rounds") {
			for range rapid.SampledFrom([]int{0, 1, 511, 512, 513, 1024, 1500}).Draw(t, "in") {
				in++
				q.push(forgetting{at: in})
			}
			for range rapid.SampledFrom([]int{0, 1, 511, 512, 513, 1024, 1500}).Draw(t, "out") {
				f, waits := q.first()
				if waits != (out < in) {
					t.Fatalf("%d went in, %d came out; one more: %t", in, out, waits)
				}
				if !waits {
					break
				}
				out++
				if f.at != out {
					t.Fatalf("%d comes out; want %d", f.at, out)
				}
				q.pop()
			}
		}
	})
}
