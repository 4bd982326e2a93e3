package coordinator

import (
	"bufio"
	"context"
	"fmt"
	"net"
	"net/http"
	"runtime"
	"strings"
	"testing"
	"time"

	"connectrpc.com/connect"
	"google.golang.org/protobuf/proto"

	"github.com/bursar/bursar/coordinator/ledger"
	"github.com/bursar/bursar/coordinator/wire"
	"github.com/bursar/bursar/internal/identity"
	bursarv1 "github.com/bursar/bursar/proto/bursar/v1"
	"github.com/bursar/bursar/proto/bursar/v1/bursarv1connect"
	"github.com/bursar/bursar/proto/convert"
	"github.com/bursar/bursar/test/underrace"
)

// sendWaiting lets so many large requests wait.
func (f *fixture) sendWaiting(n int) {
	f.tb.Helper()
	f.host("h1", gib)
	if _, err := f.hosts.Cordon(f.tb.Context(), &bursarv1.CordonRequest{HostId: "h1"}); err != nil {
		f.tb.Fatal(err)
	}
	req := largeRequest("")
	labels, err := convert.LabelsFromProto(req.GetLabels())
	if err != nil {
		f.tb.Fatal(err)
	}
	asked, err := convert.ResourceFromProto(req.GetResource())
	if err != nil {
		f.tb.Fatal(err)
	}
	if err := f.server.loop.Do(f.tb.Context(), func(l *ledger.Ledger, now ledger.Instant) {
		for range n {
			if _, err := l.Allocate(now, ledger.AllocateCommand{
				Actor: identity.Local(), Labels: labels, Resource: asked, Wait: time.Hour, Async: true,
			}); err != nil {
				f.tb.Error(err)
			}
		}
	}); err != nil {
		f.tb.Fatal(err)
	}
}

func TestAPageEndsWhereItIsLarge(t *testing.T) {
	f := start(t, Config{}, nil)
	const n = 1200 // 9 MB
	f.sendWaiting(n)
	seen := make(map[string]bool)
	req := &bursarv1.AllocationServiceListRequest{PageSize: 1000}
	pages := 0
	for ; ; pages++ {
		page, err := f.allocations.List(t.Context(), req)
		if err != nil {
			t.Fatal(err)
		}
		if size := proto.Size(page); size > wire.PageMost || len(page.GetAllocations()) == 0 {
			t.Fatalf("a page of %d bytes with %d rows", size, len(page.GetAllocations()))
		}
		for _, a := range page.GetAllocations() {
			if seen[a.GetId()] {
				t.Fatalf("%s is there twice", a.GetId())
			}
			seen[a.GetId()] = true
		}
		if req.PageToken = page.GetNextPageToken(); req.PageToken == "" {
			break
		}
	}
	if len(seen) != n || pages < 2 {
		t.Errorf("%d of %d on %d pages", len(seen), n, pages)
	}
	// What has ended is cut in the same way, from the middle of what was read of it.
	for id := range seen {
		if _, err := f.allocations.Cancel(t.Context(), &bursarv1.CancelRequest{Id: id}); err != nil {
			t.Fatal(err)
		}
	}
	ended := 0
	req = &bursarv1.AllocationServiceListRequest{PageSize: 1000, Ended: true}
	for {
		page, err := f.allocations.List(t.Context(), req)
		if err != nil {
			t.Fatal(err)
		}
		if size := proto.Size(page); size > wire.PageMost {
			t.Fatalf("a page of %d bytes with %d rows", size, len(page.GetAllocations()))
		}
		for _, a := range page.GetAllocations() {
			if ended++; !seen[a.GetId()] {
				t.Fatalf("%s is there twice", a.GetId())
			}
			delete(seen, a.GetId())
		}
		if req.PageToken = page.GetNextPageToken(); req.PageToken == "" {
			break
		}
	}
	if ended != n {
		t.Errorf("%d of %d that ended", ended, n)
	}
}

// Sixty readers ask for the largest pages and take nothing of them: what is held for them is
// bounded, others are answered, and once they have gone so is the caller whose they were.
func TestReadersThatTakeNothingFillNoMemory(t *testing.T) {
	f := start(t, Config{}, nil)
	f.sendWaiting(2000) // 16 MB
	heap := func() uint64 {
		runtime.GC()
		var m runtime.MemStats
		runtime.ReadMemStats(&m)
		return m.HeapAlloc
	}
	before := heap()
	body, err := proto.Marshal(&bursarv1.AllocationServiceListRequest{PageSize: 1000})
	if err != nil {
		t.Fatal(err)
	}
	text := fmt.Sprintf("POST %s HTTP/1.1\r\nHost: %s\r\nContent-Type: application/proto\r\nContent-Length: %d\r\n\r\n%s",
		bursarv1connect.AllocationServiceListProcedure, f.server.Address(), len(body), body)
	const readers = 60
	refused := 0
	connections := make([]net.Conn, readers)
	heads := make(chan string, readers)
	for i := range connections {
		conn, err := net.Dial("tcp", f.server.Address())
		if err != nil {
			t.Fatal(err)
		}
		defer conn.Close()
		if tcp, ok := conn.(*net.TCPConn); ok {
			if err := tcp.SetReadBuffer(4 << 10); err != nil {
				t.Fatal(err)
			}
		}
		connections[i] = conn
		go func() {
			_, _ = conn.Write([]byte(text))
			head, _ := bufio.NewReaderSize(conn, 16).ReadString('\n')
			heads <- head
		}()
	}
	for range readers {
		if head := <-heads; strings.Contains(head, fmt.Sprint(http.StatusTooManyRequests)) {
			refused++
		}
	}
	held := int64(heap()) - int64(before)
	t.Logf("%d readers that take nothing: %d are refused, %.1f MiB are held", readers, refused, float64(held)/float64(mib))
	if held > underrace.Factor*100<<20 || refused == 0 || refused == readers {
		t.Errorf("%d bytes are held; %d of %d are refused", held, refused, readers)
	}
	if _, err := f.allocations.List(t.Context(), &bursarv1.AllocationServiceListRequest{PageSize: 1}); err != nil {
		t.Errorf("a small page: %v", err)
	}
	_, err = f.allocations.List(t.Context(), &bursarv1.AllocationServiceListRequest{PageSize: 1000})
	if connect.CodeOf(err) != connect.CodeResourceExhausted || !strings.Contains(err.Error(), "bytes of answers that are being made or sent") {
		t.Errorf("one more large page: %v", err)
	}
	for _, conn := range connections {
		_ = conn.Close()
	}
	eventually(t, "a large page is answered again", func() bool {
		_, err := f.allocations.List(context.WithoutCancel(t.Context()), &bursarv1.AllocationServiceListRequest{PageSize: 1000})
		return err == nil
	})
}

// A page counts by the rows that it may have, that of rules by its bytes: their accounts come with
// them.
func TestAPageCountsWithWhatItMayTake(t *testing.T) {
	for name, c := range map[string]struct {
		request any
		want    int
	}{
		"a small page":  {&bursarv1.AllocationServiceListRequest{PageSize: 10}, 10 * convert.MaxAllocationSize},
		"the usual one": {&bursarv1.AllocationServiceListRequest{}, min(wire.PageMost, 100*convert.MaxAllocationSize)},
		"a large one":   {&bursarv1.AllocationServiceListRequest{PageSize: 1000}, wire.PageMost},
		"rules":         {&bursarv1.QuotaServiceListRequest{PageSize: 1}, wire.PageMost},
		"no page":       {&bursarv1.AllocationServiceGetRequest{}, 0},
	} {
		if got := pageBound(c.request); got != c.want {
			t.Errorf("%s counts with %d bytes, want %d", name, got, c.want)
		}
	}
}
