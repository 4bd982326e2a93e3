package admission

import (
	"testing"
	"testing/synctest"
	"time"
)

// entered makes a connection of a caller read data in which so many streams begin. The returned
// function reports whether the data may be handled.
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

// begunGate is of a connection whose first frames have come.
func begunGate(t *turns) *gate {
	g := newGate(t)
	g.spent = firstFrames + 1
	return g
}

func testTurns(reads, starts int) *turns {
	t := newTurns()
	t.reads, t.starts = reads, starts
	return t
}

func TestConnectionsOfOneOwnerAreReadInTurns(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		turns := testTurns(1, 100)
		first, second, third, other := begunGate(turns), begunGate(turns), begunGate(turns), begunGate(turns)
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
		first, second, other := begunGate(turns), begunGate(turns), begunGate(turns)
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
		malformed, proper := begunGate(turns), begunGate(turns)
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

// With any number of waiting connections, the rate of streams that never become requests is
// bounded.
func TestStreamsThatNeverBecomeRequestsAreForgivenTogether(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		turns := testTurns(100, 2)
		var may []func() bool
		gates := make([]*gate, 10)
		for i := range gates {
			gates[i] = begunGate(turns)
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
		conn, same, unknown := begunGate(turns), begunGate(turns), begunGate(turns)
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

// A new connection does not wait for the others of its owner before its caller is known.
func TestAConnectionBeginsNextToTheOthersOfItsOwner(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		turns := testTurns(1, 1)
		flood, waits, begins, next := begunGate(turns), begunGate(turns), newGate(turns), newGate(turns)
		if !enteredWith(flood, "address", 1, 1)() {
			t.Fatal("the first one has no turn")
		}
		if enteredWith(waits, "address", 0, 1)() {
			t.Fatal("two have a turn at a time")
		}
		turns.owners["address"].frames.take(2*frameBurst, time.Now()) // it would sleep for seconds
		if !enteredWith(begins, "address", 0, 2)() {
			t.Error("the settings of a connection wait for a flood")
		}
		may := enteredWith(next, "address", 1, 4)
		if may() {
			t.Error("two connections begin at a time")
		}
		begins.leave()
		if !may() {
			t.Error("the next one does not begin")
		}
		next.leave()
		if !enteredWith(next, "address", 0, 1)() {
			t.Error("the body of the first call waits for a flood")
		}
		next.leave()
		if enteredWith(next, "address", 1, 1)() {
			t.Error("a connection goes ahead with its second stream")
		}
		for _, g := range []*gate{flood, waits, begins, next} {
			g.close()
		}
	})
}

// Each connection goes ahead with a few frames only.
func TestAConnectionThatBeginsNothingGoesAheadForAWhile(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		turns := testTurns(1, 1)
		flood, begins := begunGate(turns), newGate(turns)
		if !enteredWith(flood, "address", 0, 1)() {
			t.Fatal("the first one has no turn")
		}
		for range firstFrames {
			if !enteredWith(begins, "address", 0, 1)() {
				t.Fatal("its first frames wait")
			}
			begins.leave()
		}
		if enteredWith(begins, "address", 0, 1)() {
			t.Error("it goes ahead after its first frames")
		}
		uploads := newGate(turns) // DATA that is not light
		for range 2 * firstFrames {
			if !enteredWith(uploads, "address", 0, 0)() {
				t.Fatal("its first frames wait")
			}
			uploads.leave()
		}
		if enteredWith(uploads, "address", 0, 0)() {
			t.Error("it goes ahead with an upload")
		}
		uploads.close()
		flood.close()
		begins.close()
	})
}
