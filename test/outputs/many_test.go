package outputs

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"testing"

	bursarv1 "github.com/bursar/bursar/proto/bursar/v1"
	"github.com/bursar/bursar/proto/bursar/v1/bursarv1connect"
	"github.com/bursar/bursar/test/underrace"
)

// sumOf reads output to its end, and returns how much it was and its SHA-256.
func sumOf(ctx context.Context, c bursarv1connect.EngineServiceClient, request *bursarv1.LogsRequest) (size int64, sum string, err error) {
	stream, err := c.Logs(ctx, request)
	if err != nil {
		return 0, "", err
	}
	defer stream.Close()
	of := sha256.New()
	ended := false
	for stream.Receive() {
		data := stream.Msg().GetData()
		if stream.Msg().GetGap() > 0 || stream.Msg().GetNextOffset() != size+int64(len(data)) {
			return size, "", fmt.Errorf("byte %d comes after byte %d", stream.Msg().GetNextOffset(), size)
		}
		_, _ = of.Write(data)
		size += int64(len(data))
		ended = stream.Msg().GetEnd() != nil
	}
	if err := stream.Err(); err != nil {
		return size, "", err
	}
	if !ended {
		return size, "", fmt.Errorf("it ended at byte %d without an end", size)
	}
	return size, hex.EncodeToString(of.Sum(nil)), nil
}

// sizeOf is how much output a test has, in MiB: more if the environment says so.
func sizeOf(usual int) int {
	if n, err := strconv.Atoi(os.Getenv("BURSAR_OUTPUT_MIB")); err == nil {
		return n
	}
	return usual
}

// written starts an engine that writes random bytes, and returns their SHA-256 once it has ended.
func (p *place) written(name string, mib int) (id, sum string) {
	p.t.Helper()
	dir := filepath.Join(p.dir, name)
	if err := os.Mkdir(dir, 0o777); err != nil {
		p.t.Fatal(err)
	}
	if err := os.Chmod(dir, 0o777); err != nil { // whatever the umask is
		p.t.Fatal(err)
	}
	id = p.engine(name, fmt.Sprintf("head -c %d /dev/urandom >%[2]s/all && cat %[2]s/all && sha256sum <%[2]s/all >%[2]s/sum && rm %[2]s/all", mib<<20, dir), func(l *bursarv1.LaunchSpec) {
		l.Logs = &bursarv1.LaunchLogs{MaxBytes: 2 << 30}
	})
	leader, _ := p.leader()
	if _, err := p.visit(leader, "alice").Engines().Wait(p.t.Context(), &bursarv1.WaitRequest{Id: id}); err != nil {
		p.t.Fatal(err)
	}
	text, err := os.ReadFile(filepath.Join(dir, "sum"))
	if err != nil {
		p.t.Fatal(err)
	}
	sum, _, _ = strings.Cut(string(text), " ")
	return id, sum
}

// Large output comes whole. BURSAR_OUTPUT_MIB=1024 is 1 GiB.
func TestLargeOutput(t *testing.T) {
	p := setUp(t, 2)
	mib := sizeOf(64)
	id, want := p.written("large", mib)
	_, standby := p.leader()
	if size, sum, err := sumOf(t.Context(), p.visit(standby, "alice").Engines(), follow(id)); err != nil || sum != want || size != int64(mib)<<20 {
		t.Errorf("%d bytes with the sum %s, %v; want %s", size, sum, err, want)
	}
}

// Two hundred readers at once have the same output, through two coordinators.
func TestTwoHundredReaders(t *testing.T) {
	p := setUp(t, 2)
	const readers = 200 / underrace.Factor // each has a helper, and the race detector one core
	id, want := p.written("shared", 1)
	var all sync.WaitGroup
	for i := range readers {
		engines := p.visit(p.members[i%2], "alice").Engines()
		all.Go(func() {
			if size, sum, err := sumOf(t.Context(), engines, follow(id)); err != nil || sum != want {
				t.Errorf("reader %d: %d bytes with the sum %s, %v", i, size, sum, err)
			}
		})
	}
	all.Wait()
}
