package admission

import (
	"testing"
	"testing/synctest"
	"time"
)

// flood reads frames of a connection one by one, and returns the duration.
func flood(g *gate, id string, frames int) time.Duration {
	began := time.Now()
	for range frames {
		g.enter(id, 0, 1)
		g.leave()
	}
	return time.Since(began)
}

func TestFramesThatBringNothingAreReadSlowlyAfterABurst(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		turns := testTurns(1, 100)
		one, two, other := begunGate(turns), begunGate(turns), begunGate(turns)
		if took := flood(one, "mallory", frameBurst); took != 0 {
			t.Errorf("the first frames take %s", took)
		}
		if took := flood(one, "mallory", 2*frameRate); took < 1900*time.Millisecond || took > 2100*time.Millisecond {
			t.Errorf("%d more frames take %s; want 2 s", 2*frameRate, took)
		}
		if took := flood(two, "mallory", frameRate); took < 900*time.Millisecond {
			t.Errorf("over another connection of the same owner frames take %s; want 1 s", took)
		}
		one.close()
		two.close()
		again := begunGate(turns)
		if took := flood(again, "mallory", frameRate); took < 900*time.Millisecond {
			t.Errorf("over a new connection frames take %s; want 1 s", took)
		}
		if took := flood(other, "alice", frameBurst); took != 0 {
			t.Errorf("another owner waits for %s", took)
		}
		time.Sleep(frameBurst / frameRate * 2 * time.Second)
		if took := flood(again, "mallory", frameBurst); took != 0 {
			t.Errorf("after a quiet time frames take %s", took)
		}
	})
}

func TestFramesOfAnsweredCallsAreFree(t *testing.T) {
	for name, free := range map[string]func(*gate){
		"answered":        func(g *gate) { g.answered.Add(1) },
		"a large message": func(g *gate) { g.sent.Add(framesOfCall * bytesOfFrame) },
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				g := begunGate(testTurns(1, 100))
				for range frameBurst {
					if took := flood(g, "alice", framesOfCall); took != 0 {
						t.Fatalf("a caller whose calls are answered waits for %s", took)
					}
					free(g)
				}
			})
		})
	}
}

// Agents behind one gateway come from one address, until each has made a call.
func TestFramesThatBeginAConnectionAreFreeOnceACallIsLetThrough(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		turns := testTurns(1, 100)
		for range frameBurst {
			g := begunGate(turns)
			if took := flood(g, "192.0.2.1", 4); took != 0 {
				t.Fatalf("it waits for %s", took)
			}
			g.let.Store(true)
			g.started()
		}
	})
}

// A connection that is closed does not sleep on.
func TestAConnectionThatSleepsForItsFramesEndsAtOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		turns := testTurns(1, 100)
		g, next := begunGate(turns), begunGate(turns)
		flood(g, "mallory", frameBurst)
		began := time.Now()
		may := enteredWith(g, "mallory", 0, 100*frameRate)
		if may() {
			t.Fatal("it does not sleep")
		}
		mayNext := entered(next, "mallory", 0)
		if mayNext() {
			t.Error("another connection of its owner is read meanwhile")
		}
		g.close()
		if !may() || !mayNext() || time.Since(began) != 0 {
			t.Errorf("it sleeps on, or its turn does not end with it: %s", time.Since(began))
		}
		next.close()
	})
}

// Owners without a connection are forgotten when their frames no longer count.
func TestOwnersAreForgottenOnceTheirFramesDoNotCount(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		turns := testTurns(1, 100)
		for n := range 2 * keptOwners {
			g := begunGate(turns)
			flood(g, string(rune('a'+n)), 100)
			g.close()
			if n == keptOwners-1 {
				time.Sleep(time.Minute)
			}
		}
		if n := len(turns.owners); n != keptOwners {
			t.Errorf("%d owners are kept, want %d", n, keptOwners)
		}
	})
}
