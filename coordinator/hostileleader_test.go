package coordinator

import (
	"context"
	"encoding/binary"
	"maps"
	"net/http"
	"net/http/httptest"
	"runtime"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"connectrpc.com/connect"
	"google.golang.org/protobuf/proto"

	"github.com/bursar/bursar/coordinator/election"
	"github.com/bursar/bursar/coordinator/store/storetest"
	"github.com/bursar/bursar/internal/readlimit"
	bursarv1 "github.com/bursar/bursar/proto/bursar/v1"
	"github.com/bursar/bursar/proto/bursar/v1/bursarv1connect"
	"github.com/bursar/bursar/test/hostile"
	"github.com/bursar/bursar/test/underrace"
)

// standbyOf starts a coordinator that never leads, and takes for the leader whom the election
// announces.
func standbyOf(t *testing.T, b *fakeElection) *fixture {
	t.Helper()
	return start(t, Config{}, storetest.NewMemory("shared").Open(), func(server *Server) {
		server.elect = func(self Self) (election.Election, error) {
			b.bar(self.URL, true)
			return &candidate{fakeElection: b, self: self}, nil
		}
	})
}

// hostileLeader is announced, and called to be greeted.
func hostileLeader(t *testing.T, b *fakeElection, f *fixture, serve http.HandlerFunc) (calls *atomic.Int64, end func()) {
	t.Helper()
	calls = new(atomic.Int64)
	server := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		calls.Add(1)
		serve(w, r)
	}))
	server.Config.Protocols = new(http.Protocols)
	server.Config.Protocols.SetHTTP1(true)
	server.Config.Protocols.SetUnencryptedHTTP2(true)
	server.Start()
	b.announce(election.Leader{URL: server.URL})
	eventually(t, "the standby has greeted it", func() bool {
		route := f.server.peers.Route()
		return route.URL == server.URL && route.Probed
	})
	return calls, func() {
		server.CloseClientConnections()
		server.Close()
	}
}

// heapGrowth is how much larger the heap of this process gets while f runs, in bytes, with what is
// not collected yet.
func heapGrowth(f func()) uint64 {
	var before, now runtime.MemStats
	runtime.GC()
	runtime.ReadMemStats(&before)
	most := before.HeapAlloc
	ended, looked := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(looked)
		again := time.NewTicker(2 * time.Millisecond)
		defer again.Stop()
		for {
			runtime.ReadMemStats(&now)
			most = max(most, now.HeapAlloc)
			select {
			case <-again.C:
			case <-ended:
				return
			}
		}
	}()
	f()
	close(ended)
	<-looked
	return most - before.HeapAlloc
}

// collected is how much garbage there may be, in bytes, in addition to what is needed, and to what
// this test's own servers take.
const collected = 32 << 20

// A false leader costs a standby no more than its largest answers, and its callers get an error in
// time.
func TestALeaderCannotFillAStandby(t *testing.T) {
	b := newFakeElection()
	f := standbyOf(t, b)
	const deadline = 3 * time.Second
	calls := map[string]func(context.Context) error{
		bursarv1connect.ClusterServiceStatusProcedure: func(ctx context.Context) error {
			_, err := f.cluster.Status(ctx, &bursarv1.StatusRequest{})
			return err
		},
		bursarv1connect.AllocationServiceListProcedure: func(ctx context.Context) error {
			_, err := f.allocations.List(ctx, &bursarv1.AllocationServiceListRequest{})
			return err
		},
	}
	for name, serve := range hostile.Answers() {
		called, end := hostileLeader(t, b, f, serve)
		for procedure, call := range calls {
			greeted := called.Load()
			var err error
			began := time.Now()
			grew := heapGrowth(func() {
				ctx, cancel := context.WithTimeout(t.Context(), deadline)
				defer cancel()
				err = call(ctx)
			})
			// A buffer doubles as it grows, and the packed text is held next to the unpacked one.
			if most := (5*uint64(readlimit.Of(procedure)) + collected) * underrace.Factor; grew > most {
				t.Errorf("%s, %s: the heap grew by %d MiB, want at most %d", name, procedure, grew>>20, most>>20)
			}
			if err == nil || called.Load() == greeted {
				t.Errorf("%s, %s: %v after %d calls of the leader", name, procedure, err, called.Load()-greeted)
			}
			t.Logf("%s, %s: %d MiB in %v", name, procedure, grew>>20, time.Since(began).Round(time.Millisecond))
		}
		end()
	}
}

// The messages of a stream are bounded one by one, and there are no more of them in a standby than
// its caller reads.
func TestALeaderCannotFillAStandbyWithAStream(t *testing.T) {
	b := newFakeElection()
	f := standbyOf(t, b)
	streams := hostile.Streams()
	maps.Copy(streams, map[string]http.HandlerFunc{"empty messages": hostile.Endless})
	for name, serve := range streams {
		_, end := hostileLeader(t, b, f, serve)
		const want = 5_000
		messages := 0
		var err error
		grew := heapGrowth(func() {
			ctx, cancel := context.WithTimeout(t.Context(), 5*time.Second)
			defer cancel()
			stream, opening := f.cluster.Watch(ctx, &bursarv1.ClusterServiceWatchRequest{})
			if err = opening; err != nil {
				return
			}
			defer stream.Close()
			for messages < want && stream.Receive() {
				messages++
			}
			err = stream.Err()
		})
		if name == "empty messages" {
			if messages < want || err != nil {
				t.Errorf("%s: %d of them were passed on: %v", name, messages, err)
			}
		} else if code := connect.CodeOf(err); code != connect.CodeResourceExhausted && code != connect.CodeDeadlineExceeded {
			// What is too large is read to its end, and thrown away, as long as the caller waits.
			t.Errorf("%s: %v, want RESOURCE_EXHAUSTED or the caller's own deadline", name, err)
		}
		if most := uint64(5*readlimit.Of(bursarv1connect.ClusterServiceWatchProcedure)+collected) * underrace.Factor; grew > most {
			t.Errorf("%s: the heap grew by %d MiB, want at most %d", name, grew>>20, most>>20)
		}
		t.Logf("%s: %d MiB for %d messages", name, grew>>20, messages)
		end()
	}
}

// Of what callers watch and do not read a standby holds little, however much the leader tells.
func TestWatchesThatNobodyReadsTakeLittleOfAStandby(t *testing.T) {
	b := newFakeElection()
	f := standbyOf(t, b)
	message, err := proto.Marshal(&bursarv1.ClusterServiceWatchResponse{
		// less than is compressed
		Change: &bursarv1.ClusterServiceWatchResponse_HostDeleted{HostDeleted: strings.Repeat("h", 3<<10)},
	})
	if err != nil {
		t.Fatal(err)
	}
	frame := append(binary.BigEndian.AppendUint32([]byte{0}, uint32(len(message))), message...)
	var told atomic.Int64
	_, end := hostileLeader(t, b, f, func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path != bursarv1connect.ClusterServiceWatchProcedure {
			http.NotFound(w, r)
			return
		}
		w.Header().Set("Content-Type", "application/connect+proto")
		control := http.NewResponseController(w)
		for _, err := w.Write(frame); err == nil; _, err = w.Write(frame) {
			told.Add(int64(len(frame)))
			_ = control.Flush()
		}
	})
	defer end()
	const watches = 64
	request := unreadRequests(watches, bursarv1connect.ClusterServiceWatchProcedure, "application/connect+proto", []byte{0, 0, 0, 0, 0})
	grew := heapGrowth(func() { sendTo(t, f.server.Address(), 1, request, 5*time.Second) })
	const each = 2*readlimit.Unread + 256<<10 // a slice grows by half, and all ends have buffers
	if most := uint64(watches*each+collected) * underrace.Factor; grew > most {
		t.Errorf("for %d watches that nobody reads the heap grew by %d MiB, want at most %d", watches, grew>>20, most>>20)
	}
	if least := int64(watches * readlimit.Unread / 2); told.Load() < least {
		t.Errorf("the leader told %d bytes: want %d at least", told.Load(), least)
	}
	t.Logf("%d watches: %d MiB, of %d MiB that the leader could tell", watches, grew>>20, told.Load()>>20)
}
