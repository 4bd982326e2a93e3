package coordinator

import (
	"fmt"
	"os"
	"path/filepath"
	"testing"

	"google.golang.org/protobuf/proto"

	bursarv1 "github.com/bursar/bursar/proto/bursar/v1"
)

// BenchmarkDiskOfAPair says how many bytes a store keeps of an Allocate and its Cancel: of a usual
// request and of one that is nearly as large as may be.
func BenchmarkDiskOfAPair(b *testing.B) {
	for name, req := range map[string]*bursarv1.AllocateRequest{
		"usual": request("", mib), "wishes 7 KB": wishful("", 27),
	} {
		b.Run(name, func(b *testing.B) {
			path := filepath.Join(b.TempDir(), "ledger.db")
			f := start(b, Config{}, openSQLite(b, path))
			f.host("h1", gib)
			before := fileSize(b, path)
			for i := range b.N {
				r := proto.CloneOf(req)
				r.RequestId = fmt.Sprintf("request-%032d", i)
				res, err := f.allocations.Allocate(b.Context(), r)
				if err != nil {
					b.Fatal(err)
				}
				if _, err := f.allocations.Cancel(b.Context(), &bursarv1.CancelRequest{Id: res.GetAllocation().GetId()}); err != nil {
					b.Fatal(err)
				}
			}
			f.stop()
			b.ReportMetric(float64(fileSize(b, path)-before)/float64(b.N), "bytes/pair")
		})
	}
}

func fileSize(b *testing.B, path string) int64 {
	b.Helper()
	info, err := os.Stat(path)
	if err != nil {
		b.Fatal(err)
	}
	return info.Size()
}
