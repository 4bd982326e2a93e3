package admission

import (
	"bytes"
	"context"
	"fmt"
	"log/slog"
	"net"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"connectrpc.com/connect"
)

// from is a connection from an address.
type from struct {
	net.Conn

	address string
	ended   atomic.Bool
}

func (f *from) RemoteAddr() net.Addr {
	address, err := net.ResolveTCPAddr("tcp", f.address)
	if err != nil {
		panic(err)
	}
	return address
}

func (f *from) Close() error {
	f.ended.Store(true)
	return nil
}

func (f *from) closed() bool { return f.ended.Load() }

// opened adds a connection, and returns it with the context of its requests.
func opened(c *Connections, address string) (*from, context.Context) {
	conn := &from{address: address}
	return conn, c.Context(context.Background(), c.add(conn))
}

func bounded4(t *testing.T) (c *Connections, refused *int) {
	t.Helper()
	refused = new(int)
	return NewConnections(ConnectionLimits{Unknown: 4, Address: 3, Known: 3, Caller: 2, First: time.Minute, Nameless: time.Minute}, ConnectionOptions{
		Refused: func() { *refused++ }, Log: slog.New(slog.DiscardHandler),
	}), refused
}

func TestOldestConnectionOfAnAddressMakesRoomWhateverItDoes(t *testing.T) {
	c, refused := bounded4(t)
	var floods []*from
	for i := range 3 {
		flood, ctx := opened(c, fmt.Sprintf("192.0.2.1:%d", i+1))
		defer c.Begin(ctx)() // slow probes
		floods = append(floods, flood)
	}
	first, _ := opened(c, "192.0.2.1:4") // of others behind the same gateway
	second, _ := opened(c, "192.0.2.1:5")
	if !floods[0].closed() || !floods[1].closed() || floods[2].closed() || first.closed() || second.closed() || *refused != 2 {
		t.Errorf("closed: floods %t, %t, %t, others %t, %t; %d refused", floods[0].closed(), floods[1].closed(), floods[2].closed(), first.closed(), second.closed(), *refused)
	}
}

// When all addresses have too many connections, the one with most loses one.
func TestAddressesThatHaveFewConnectionsKeepThem(t *testing.T) {
	c, _ := bounded4(t)
	oldest, _ := opened(c, "192.0.2.2:1")
	first, _ := opened(c, "192.0.2.1:1")
	second, _ := opened(c, "192.0.2.1:2")
	third, _ := opened(c, "192.0.2.1:3")
	newest, _ := opened(c, "192.0.2.3:1")
	if oldest.closed() || !first.closed() || second.closed() || third.closed() {
		t.Errorf("closed: of another address %t, of the one that has most %t, %t, %t", oldest.closed(), first.closed(), second.closed(), third.closed())
	}
	opened(c, "192.0.2.1:4")
	if oldest.closed() || newest.closed() || !second.closed() {
		t.Errorf("closed: of other addresses %t, %t, of its own %t", oldest.closed(), newest.closed(), second.closed())
	}
}

func TestConnectionsOfOneMachineCountOnTheirUsers(t *testing.T) {
	c, _ := bounded4(t)
	uid := ""
	c.options.OwnerOf = func(net.Conn) Caller { return Caller{ID: uid, Name: uid} }
	uid = "alice"
	alice, _ := opened(c, "127.0.0.1:1")
	uid = "mallory"
	for i := range 9 {
		opened(c, fmt.Sprintf("127.0.0.%d:1", i+1))
	}
	uid = "" // it is not known whose they are: all of these count together
	for i := range 9 {
		opened(c, fmt.Sprintf("127.0.1.%d:1", i+1))
	}
	if alice.closed() {
		t.Error("another user's flood has closed it")
	}
	if n := len(c.unknown.of); n != 3 {
		t.Errorf("%d are told apart, want 3", n)
	}
}

func TestConnectionsWithAnIdentityCountOnIt(t *testing.T) {
	c, _ := bounded4(t)
	alice, bob := Caller{ID: "alice", Name: "alice"}, Caller{ID: "bob", Name: "bob"}
	identified := func(who Caller) (*from, context.Context) {
		conn, ctx := opened(c, "192.0.2.1:1") // behind one gateway
		if err := c.Identify(ctx, who); err != nil {
			t.Fatal(err)
		}
		return conn, ctx
	}
	first, ctx := identified(alice)
	end := c.Begin(ctx)
	second, _ := identified(alice)
	third, thirdCtx := identified(alice)
	if first.closed() || !second.closed() || third.closed() {
		t.Errorf("closed: busy %t, idle %t, new %t", first.closed(), second.closed(), third.closed())
	}
	defer c.Begin(thirdCtx)()
	_, ctx = opened(c, "192.0.2.1:9")
	if err := c.Identify(ctx, alice); connect.CodeOf(err) != connect.CodeResourceExhausted || TryAgain(err) == 0 {
		t.Errorf("each has a request under way: %v", err)
	}
	identified(bob)
	end()
	if err := c.Identify(ctx, alice); err != nil || !first.closed() {
		t.Errorf("one is idle by now: %v, closed %t", err, first.closed())
	}
}

func TestConnectionWithoutARequestEnds(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c, _ := bounded4(t)
		silent, _ := opened(c, "192.0.2.1:1")
		asked, ctx := opened(c, "192.0.2.1:2")
		c.Begin(ctx)()
		time.Sleep(time.Hour)
		synctest.Wait()
		if !silent.closed() || asked.closed() {
			t.Errorf("closed: silent %t, one with a request %t", silent.closed(), asked.closed())
		}
		if c.unknown.count != 1 {
			t.Errorf("%d are counted", c.unknown.count)
		}
	})
}

func TestRequestWithoutAnIdentityEndsInTime(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c, _ := bounded4(t)
		slow, ctx := opened(c, "192.0.2.1:1")
		defer c.Begin(ctx)()
		quick, ctx := opened(c, "192.0.2.1:2")
		c.Begin(ctx)()
		called, ctx := opened(c, "192.0.2.1:3")
		defer c.Begin(ctx)()
		if err := c.Identify(ctx, Caller{ID: "alice", Name: "alice"}); err != nil {
			t.Fatal(err)
		}
		time.Sleep(time.Hour)
		synctest.Wait()
		if !slow.closed() || quick.closed() || called.closed() {
			t.Errorf("closed: slow %t, quick %t, with an identity %t", slow.closed(), quick.closed(), called.closed())
		}
	})
}

// Callers whose connections are all busy do not keep out callers without a connection.
func TestCallersWithManyBusyConnectionsKeepNobodyOut(t *testing.T) {
	c, _ := bounded4(t)
	var busy []*from
	call := func(who string) (*from, error) {
		conn, ctx := opened(c, "192.0.2.1:1")
		c.Begin(ctx) // and it never ends
		return conn, c.Identify(ctx, Caller{ID: who, Name: who})
	}
	for _, who := range []string{"mallory", "mallory", "trudy"} {
		conn, err := call(who)
		if err != nil {
			t.Fatal(err)
		}
		busy = append(busy, conn)
	}
	if _, err := call("alice"); err != nil || !busy[0].closed() || busy[1].closed() || busy[2].closed() {
		t.Errorf("%v; closed: %t, %t, %t", err, busy[0].closed(), busy[1].closed(), busy[2].closed())
	}
	// by now each has one, which stays
	for _, who := range []string{"bob", "mallory"} {
		if _, err := call(who); connect.CodeOf(err) != connect.CodeResourceExhausted {
			t.Errorf("%s: %v", who, err)
		}
	}
}

func TestClosedConnectionsAreLoggedOnceAMinuteForACaller(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c, refused := bounded4(t)
		var log bytes.Buffer
		c.options.Log = slog.New(slog.NewTextHandler(&log, nil))
		for range 2 {
			for i := range 9 {
				opened(c, fmt.Sprintf("192.0.2.1:%d", i+1))
			}
			time.Sleep(time.Minute)
		}
		if n := strings.Count(log.String(), "caller=192.0.2.1"); n != 2 || *refused < 12 {
			t.Errorf("%d lines for %d connections:\n%s", n, *refused, &log)
		}
	})
}

// If the owner of a connection is known at once, no user exceeds its limit, an idle connection
// makes room, and a user with many uids keeps no other user out.
func TestConnectionsOfKnownUsersAreBounded(t *testing.T) {
	var logged bytes.Buffer
	refused := 0
	c := NewConnections(ConnectionLimits{Known: 40, Caller: 4, First: time.Minute}, ConnectionOptions{
		Refused: func() { refused++ }, Log: slog.New(slog.NewTextHandler(&logged, nil)),
	})
	admit := func(uid int) (*from, *Connection) {
		conn := &from{address: "192.0.2.1:1"}
		return conn, c.Admit(conn, someone(uid))
	}
	for range 100 {
		if c.Admit(&from{address: "192.0.2.1:1"}, Caller{}) == nil {
			t.Fatal("one that is not counted was refused")
		}
	}
	var idle []*from
	for uid := range 10 { // as one user with ten uids
		for range 4 {
			conn, admitted := admit(uid)
			if admitted == nil {
				t.Fatalf("user %d was refused", uid)
			}
			idle = append(idle, conn)
		}
	}
	_, mine := admit(50)
	if mine == nil {
		t.Fatal("somebody else was refused")
	}
	ended := c.Begin(c.Context(context.Background(), mine))
	for range 1000 {
		admit(3)
		admit(60)
	}
	if mine.element == nil {
		t.Error("a connection with a call under way was closed for those of others who have more")
	}
	ended()
	gone := 0
	for _, conn := range idle {
		if conn.closed() {
			gone++
		}
	}
	if gone == 0 || c.known.count > 40 || refused == 0 {
		t.Errorf("%d closed, %d there, %d counted", gone, c.known.count, refused)
	}
	if lines := strings.Count(logged.String(), "\n"); lines == 0 || lines > logBurst {
		t.Errorf("logged %d times", lines)
	}
	_ = mine.Close()
	_ = mine.Close()
	if c.known.of[someone(50).ID] != nil {
		t.Error("a closed connection is counted")
	}
}

// The refusal tells an operator which limit to raise.
func TestRefusedConnectionsSayThatDescriptorsAreFew(t *testing.T) {
	for of, want := range map[int]string{
		1024: "someone@h1 may have 1 connections here (this process may have 1024 descriptors: LimitNOFILE= or ulimit -n), and each has",
		0:    "someone@h1 may have 1 connections here, and each has",
	} {
		var logged strings.Builder
		c := NewConnections(ConnectionLimits{Known: 40, Caller: 1, CallerOf: of, Unknown: 40, Address: 40, First: time.Minute, Nameless: time.Minute},
			ConnectionOptions{Refused: func() {}, Log: slog.New(slog.NewTextHandler(&logged, nil))})
		c.Begin(c.Context(context.Background(), c.Admit(&from{address: "192.0.2.1:1"}, someone(1))))
		second := c.Context(context.Background(), c.add(&from{address: "192.0.2.1:2"}))
		c.Begin(second)
		if err := c.Identify(second, someone(1)); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%v: want %s", err, want)
		}
		if strings.Contains(logged.String(), "descriptors=1024") != (of > 0) {
			t.Errorf("of %d: logged %s", of, logged.String())
		}
	}
}

// Each call in progress keeps its connection: a caller with one on each gets no more.
func TestAKnownUserWhoUsesAllItsConnectionsGetsNoMore(t *testing.T) {
	c := NewConnections(ConnectionLimits{Known: 40, Caller: 4, First: time.Minute}, ConnectionOptions{Refused: func() {}, Log: slog.New(slog.DiscardHandler)})
	var first *Connection
	for range 4 {
		conn := c.Admit(&from{address: "192.0.2.1:1"}, someone(1))
		c.Begin(c.Context(context.Background(), conn))
		first = conn
	}
	if c.Admit(&from{address: "192.0.2.1:1"}, someone(1)) != nil {
		t.Error("a fifth was admitted")
	}
	_ = first.Close()
	_ = first.Close() // a connection is closed more than once
	if c.Admit(&from{address: "192.0.2.1:1"}, someone(1)) == nil {
		t.Error("refused although one has left")
	}
}
