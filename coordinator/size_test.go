package coordinator

import (
	"errors"
	"fmt"
	"path/filepath"
	"strings"
	"testing"

	"connectrpc.com/connect"
	"google.golang.org/protobuf/proto"

	"github.com/bursar/bursar/coordinator/ledger"
	bursarv1 "github.com/bursar/bursar/proto/bursar/v1"
	"github.com/bursar/bursar/proto/convert"
)

// wishful is a request with as many hosts to avoid as the rules of the fields allow, each with an id of so many bytes.
func wishful(id string, bytes int) *bursarv1.AllocateRequest {
	req := request(id, mib)
	req.Host = &bursarv1.HostWishes{}
	for i := range 256 {
		name := fmt.Sprintf("host-%03d", i)
		req.Host.Avoid = append(req.Host.Avoid, name+strings.Repeat("x", bytes-len(name)))
	}
	return req
}

func TestARequestThatWouldFillTheDiskIsRefused(t *testing.T) {
	f := start(t, Config{}, nil)
	f.host("h1", gib)
	_, err := f.allocations.Allocate(t.Context(), wishful("large", 253))
	invalid, found := detail[*bursarv1.InvalidField](err)
	if connect.CodeOf(err) != connect.CodeInvalidArgument || !found || invalid.GetField() != "host.avoid" {
		t.Fatalf("got %v, %v", err, invalid)
	}
	if want := fmt.Sprintf("at most %d bytes", convert.MaxAllocationSize); !strings.HasPrefix(invalid.GetWant(), want) ||
		!strings.Contains(invalid.GetValue(), fmt.Sprintf("of %d bytes", proto.Size(wishful("large", 253)))) {
		t.Errorf("%v tells neither the bound nor the size", invalid)
	}
	if n := f.status().GetWaiting() + f.status().GetReserved(); n != 0 {
		t.Errorf("%d allocations of a refused request", n)
	}
}

// Wishes are of no use once an allocation has ended: neither its row nor its event keeps them, and a repeat is answered all the same.
func TestAnEndedAllocationKeepsNoWishes(t *testing.T) {
	s := openSQLite(t, filepath.Join(t.TempDir(), "ledger.db"))
	f := start(t, Config{}, s)
	f.host("h1", gib)
	req := wishful("r1", 24)
	req.Host.PreferredLabels = map[string]string{"disk": "ssd"}
	a := f.allocate(req)
	id, err := ledger.ParseID(a.GetId())
	if err != nil {
		t.Fatal(err)
	}
	if row, err := s.Get(t.Context(), id); err != nil || row.Wishes == nil || len(row.Wishes.Avoid) != 256 {
		t.Fatalf("the row of a live one: %+v, %v", row.Wishes, err)
	}
	f.release(a.GetId())
	row, err := s.Get(t.Context(), id)
	if err != nil || row.Wishes != nil || row.State != ledger.Released {
		t.Errorf("the row of an ended one: %s, wishes %+v, %v", row.State, row.Wishes, err)
	}
	for i := range f.server.feed.ring {
		if e := &f.server.feed.ring[i]; e.allocation != nil && e.allocation.Wishes != nil {
			t.Errorf("an event keeps wishes: %+v", e.allocation)
		}
	}
	if again := f.allocate(proto.CloneOf(req)); again.GetId() != a.GetId() {
		t.Errorf("a repeat got %s, not %s", again.GetId(), a.GetId())
	}
	other := proto.CloneOf(req)
	other.Host.Avoid = other.GetHost().GetAvoid()[1:]
	if _, err := f.allocations.Allocate(t.Context(), other); connect.CodeOf(err) != connect.CodeAlreadyExists {
		t.Errorf("other wishes under the same request_id: %v", err)
	}
}

// A feed of large changes holds fewer of them: what it holds is bounded in bytes, and readers that are too slow are cut off.
func TestAFeedIsBoundedInBytes(t *testing.T) {
	const events, bytes = 1000, 64 << 10
	f := newFeed(events, bytes)
	f.reset(1)
	publish := func(revision uint64, size int) {
		f.publish(&ledger.Changes{Revision: revision, Transitions: []ledger.Allocation{
			{Revision: revision, Reason: strings.Repeat("r", size)},
		}})
	}
	slow, _, err := f.read(0)
	if err != nil {
		t.Fatal(err)
	}
	defer slow.leave()
	revision := uint64(1)
	for range 100 {
		revision++
		publish(revision, 4<<10)
		if _, held := f.held(); held > bytes {
			t.Fatalf("%d bytes are held, of at most %d", held, bytes)
		}
	}
	n, held := f.held()
	if n < bytes/(6<<10) || n > bytes/(4<<10) || held < bytes/2 {
		t.Errorf("%d events of 4 KiB in %d bytes are held", n, held)
	}
	if _, _, _, err := slow.poll(make([]event, 0, 1)); !errors.Is(err, errFellBehind) {
		t.Errorf("a reader of what was given up: %v", err)
	}
	if _, _, err := f.read(revision - uint64(n) - 1); !errors.Is(err, errTooOld) {
		t.Errorf("got %v", err)
	}
	if r, _, err := f.read(revision - uint64(n)); err != nil {
		t.Errorf("what is held cannot be read: %v", err)
	} else {
		r.leave()
	}
	publish(revision+1, 2*bytes) // larger than all: it alone is held
	if n, _ := f.held(); n != 1 {
		t.Errorf("%d events are held", n)
	}
	publish(revision+2, 100)
	if n, held := f.held(); n != 1 || held > 2<<10 {
		t.Errorf("%d events in %d bytes are held", n, held)
	}
	f.reset(revision + 10)
	if n, held := f.held(); n != 0 || held != 0 {
		t.Errorf("%d events in %d bytes are held after a gap", n, held)
	}
}
