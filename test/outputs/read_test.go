package outputs

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"os"
	"path/filepath"
	"strings"
	"testing"

	bursarv1 "github.com/bursar/bursar/proto/bursar/v1"
)

// A reader gets every byte, once and in order: while the engine runs and after its end, of either
// stream, from any byte, through the leader and a standby.
func TestOutputComesWhole(t *testing.T) {
	p := setUp(t, 2)
	leader, standby := p.leader()
	open := filepath.Join(p.dir, "open")
	id := p.engine("talks", "echo one; echo err >&2; while [ ! -e "+open+" ]; do sleep 0.05; done; echo two; echo end >&2")
	readers := make(chan *got, 2)
	for _, m := range []*member{leader, standby} {
		engines := p.visit(m, "alice").Engines()
		go func() {
			g, err := read(t.Context(), engines, follow(id), nil)
			if err != nil {
				t.Errorf("%s: %v", m.url, err)
			}
			readers <- g
		}()
	}
	engines := p.visit(standby, "alice").Engines()
	if g, err := read(t.Context(), engines, stdout(id), nil); err != nil || string(g.data) != "one\n" {
		t.Errorf("while it runs: %q, %v", g.data, err)
	}
	if err := os.WriteFile(open, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	for range 2 {
		if g := <-readers; g == nil || string(g.data) != "one\ntwo\n" || g.begin != 0 || g.next != 8 {
			t.Errorf("followed: %+v", g)
		}
	}
	for _, c := range []struct {
		name   string
		change func(*bursarv1.LogsRequest)
		want   string
	}{
		{"all", func(*bursarv1.LogsRequest) {}, "one\ntwo\n"},
		{"a follower after the end", func(r *bursarv1.LogsRequest) { r.Follow = true }, "one\ntwo\n"},
		{"standard error", func(r *bursarv1.LogsRequest) { r.Stream = bursarv1.OutputStream_OUTPUT_STREAM_STDERR }, "err\nend\n"},
		{"byte 5", func(r *bursarv1.LogsRequest) { r.Start = &bursarv1.LogsRequest_Offset{Offset: 5} }, "wo\n"},
		{"the end", func(r *bursarv1.LogsRequest) { r.Start = &bursarv1.LogsRequest_Offset{Offset: 8} }, ""},
		{"a line", func(r *bursarv1.LogsRequest) { r.Start = &bursarv1.LogsRequest_TailLines{TailLines: 1} }, "two\n"},
		{"no line", func(r *bursarv1.LogsRequest) { r.Start = &bursarv1.LogsRequest_TailLines{} }, ""},
		{"three bytes", func(r *bursarv1.LogsRequest) { r.Start = &bursarv1.LogsRequest_TailBytes{TailBytes: 3} }, "wo\n"},
	} {
		for _, m := range []*member{leader, standby} {
			request := stdout(id)
			c.change(request)
			if g, err := read(t.Context(), p.visit(m, "alice").Engines(), request, nil); err != nil || string(g.data) != c.want {
				t.Errorf("%s: %+v, %v; want %q", c.name, g, err, c.want)
			}
		}
	}
}

// Bytes that rotation has removed are a gap, of exactly these bytes.
func TestTheGapIsExact(t *testing.T) {
	p := setUp(t, 1)
	leader, _ := p.leader()
	const size, file, keep = 1 << 20, 64 << 10, 2
	id := p.engine("rotates", "head -c 1048576 /dev/zero | tr '\\0' x", func(l *bursarv1.LaunchSpec) {
		l.Logs = &bursarv1.LaunchLogs{MaxBytes: file, Keep: new(int32(keep))}
	})
	engines := p.visit(leader, "alice").Engines()
	if _, err := p.visit(leader, "alice").Engines().Wait(t.Context(), &bursarv1.WaitRequest{Id: id}); err != nil {
		t.Fatal(err)
	}
	kept := 0
	for _, name := range []string{"stdout", "stdout.1", "stdout.2"} {
		text, err := os.ReadFile(filepath.Join(p.dir, "logs", id, name))
		if err != nil {
			t.Fatal(err)
		}
		kept += len(text)
	}
	from := int64(1000)
	request := stdout(id)
	request.Start = &bursarv1.LogsRequest_Offset{Offset: from}
	g, err := read(t.Context(), engines, request, nil)
	if err != nil {
		t.Fatal(err)
	}
	first := int64(size - kept)
	if len(g.gaps) != 2 || g.gaps[0] != from || g.gaps[1] != first || int64(len(g.data)) != size-first || g.next != size {
		t.Errorf("gap %v, %d bytes, next %d: want a gap from %d to %d and then %d bytes", g.gaps, len(g.data), g.next, from, first, kept)
	}
}

// Output may have any bytes.
func TestBinaryOutputIsAsItWas(t *testing.T) {
	p := setUp(t, 2)
	_, standby := p.leader()
	sum := filepath.Join(p.dir, "sums", "sum")
	if err := os.Mkdir(filepath.Dir(sum), 0o777); err != nil {
		t.Fatal(err)
	}
	if err := os.Chmod(filepath.Dir(sum), 0o777); err != nil {
		t.Fatal(err)
	}
	copied := filepath.Join(filepath.Dir(sum), "copy")
	id := p.engine("binary", "head -c 5000000 /dev/urandom | tee "+copied+"; sha256sum <"+copied+" >"+sum)
	g, err := read(t.Context(), p.visit(standby, "alice").Engines(), follow(id), nil)
	if err != nil {
		t.Fatal(err)
	}
	want, err := os.ReadFile(sum)
	if err != nil {
		t.Fatal(err)
	}
	of := sha256.Sum256(g.data)
	if got := hex.EncodeToString(of[:]); !strings.HasPrefix(string(want), got) || len(g.data) != 5000000 {
		t.Errorf("%d bytes with the sum %s, want %s", len(g.data), got, bytes.TrimSpace(want))
	}
}
