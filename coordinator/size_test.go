package coordinator

import (
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

// wishful is a request with as many hosts to avoid as the rules of the fields allow, each with an
// id of so many bytes.
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

// Wishes are of no use once an allocation has ended: neither its row nor its event keeps them, and
// a repeat is answered all the same.
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
	if again := f.allocate(proto.CloneOf(req)); again.GetId() != a.GetId() {
		t.Errorf("a repeat got %s, not %s", again.GetId(), a.GetId())
	}
	other := proto.CloneOf(req)
	other.Host.Avoid = other.GetHost().GetAvoid()[1:]
	if _, err := f.allocations.Allocate(t.Context(), other); connect.CodeOf(err) != connect.CodeAlreadyExists {
		t.Errorf("other wishes under the same request_id: %v", err)
	}
}
