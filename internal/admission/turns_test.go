package admission

import (
	"testing"
	"testing/synctest"
	"time"
)

// entered has a connection of a caller read something in which so many streams begin. It returns
// what says whether it may be handled.
func entered(g *gate, id string, begun int) (may func() bool) {
	return enteredWith(g, id, begun, begun)
}

func enteredWith(g *gate, id string, begun, light int) (may func() bool) {
	done := make(chan struct{})
	go func() {
		g.enter(id, begun, light)
		close(done)
	}()
	return func() bool {
		synctest.Wait()
		select {
		case <-done:
			return true
		default:
			return false
		}
	}
}

func testTurns(reads, starts int) *turns {
	t := newTurns()
	t.reads, t.starts = reads, starts
	return t
}

func TestConnectionsOfOneOwnerAreReadInTurns(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		turns := testTurns(1, 100)
		first, second, third, other := newGate(turns), newGate(turns), newGate(turns), newGate(turns)
		if !entered(first, "mallory", 0)() {
			t.Error("the first one has no turn")
		}
		may := entered(second, "mallory", 0)
		if may() {
			t.Error("two have a turn at a time")
		}
		mayToo := entered(third, "mallory", 0)
		if !entered(other, "alice", 0)() {
			t.Error("another caller waits for them")
		}
		first.leave()
		if !may() || mayToo() {
			t.Error("the second one does not have the turn, or the third one has one too")
		}
		second.close() // the server has ended it, and reads no more
		if !mayToo() {
			t.Error("a connection that is closed keeps its turn")
		}
		for _, g := range []*gate{first, third, other} {
			g.close()
		}
		if n := len(turns.owners); n > 0 {
			t.Errorf("%d owners are kept without connections", n)
		}
	})
}

func TestStreamsOfOneOwnerStartAFewAtATime(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		turns := testTurns(100, 2)
		first, second, other := newGate(turns), newGate(turns), newGate(turns)
		if !entered(first, "mallory", 2)() {
			t.Fatal("two streams do not start")
		}
		may := entered(second, "mallory", 1)
		if may() || !entered(other, "alice", 1)() {
			t.Error("a third one starts, or another caller waits")
		}
		first.started()
		if !may() {
			t.Error("the third one waits, although the request of the first one is counted")
		}
		more := entered(first, "mallory", 1)
		if more() {
			t.Error("a fourth one starts")
		}
		second.close()
		if !more() {
			t.Error("streams of a connection that is closed keep others waiting")
		}
	})
}

// Streams whose headers are malformed never become requests.
func TestStreamsThatNeverBecomeRequestsKeepOthersWaitingForATime(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		turns := testTurns(100, 2)
		malformed, proper := newGate(turns), newGate(turns)
		entered(malformed, "mallory", 2)()
		may := entered(proper, "mallory", 1)
		if may() {
			t.Fatal("it does not wait")
		}
		time.Sleep(startTime)
		if !may() {
			t.Fatal("it waits for streams that never become requests")
		}
		malformed.started() // one of them was only late
		if !entered(malformed, "mallory", 1)() || entered(malformed, "mallory", 1)() {
			t.Error("the bound does not hold afterwards")
		}
		proper.started()
		malformed.close()
		proper.close()
		if n := len(turns.owners); n > 0 {
			t.Errorf("%d owners are kept without connections", n)
		}
	})
}

// However many connections wait, only so many streams begin in a time that never become requests.
func TestStreamsThatNeverBecomeRequestsAreForgivenTogether(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		turns := testTurns(100, 2)
		var may []func() bool
		gates := make([]*gate, 10)
		for i := range gates {
			gates[i] = newGate(turns)
			may = append(may, entered(gates[i], "mallory", 1))
		}
		for periods := range 5 {
			begun := 0
			for _, has := range may {
				if has() {
					begun++
				}
			}
			if want := 2 * (periods + 1); begun != want {
				t.Errorf("after %d periods %d streams have begun, want %d", periods, begun, want)
			}
			time.Sleep(startTime)
		}
		for _, g := range gates {
			g.close()
		}
	})
}

func TestStreamsThatStartMoveToTheCallerOfTheirConnection(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		turns := testTurns(100, 2)
		conn, same, unknown := newGate(turns), newGate(turns), newGate(turns)
		entered(conn, "192.0.2.1", 2)()
		conn.leave()
		entered(conn, "mallory", 0)() // now it is known whose it is
		if !entered(unknown, "192.0.2.1", 2)() {
			t.Error("they count on the address still")
		}
		may := entered(same, "mallory", 1)
		if may() {
			t.Error("they do not count on the caller")
		}
		conn.started()
		if !may() {
			t.Error("one that has started counts")
		}
		conn.close()
		same.close()
		unknown.close()
	})
}
