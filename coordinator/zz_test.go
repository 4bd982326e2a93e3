package coordinator

import (
	"fmt"
	"path/filepath"
	"regexp"
	"testing"

	bursarv1 "github.com/bursar/bursar/proto/bursar/v1"
)

func BenchmarkZZ(b *testing.B) {
	f := start(b, Config{}, openSQLite(b, filepath.Join(b.TempDir(), "ledger.db")))
	f.host("host-1", 1<<50)
	f.allocate(benchRequest(0))
	load(b, f.url, 64, allocateOnly)
	m := f.metrics()
	for _, l := range regexp.MustCompile(`(?m)^bursar_commit_\w+(sum|count) .*$`).FindAllString(m, -1) {
		fmt.Println(l)
	}
}

func BenchmarkYY(b *testing.B) {
	f := start(b, Config{}, newMemoryStore())
	f.host("host-1", 1<<50)
	answer := f.allocate(benchRequest(0))
	f.stop()
	load(b, startEcho(b, &bursarv1.AllocateResponse{Allocation: answer}), 64, allocateOnly)
}
