package outputs_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"time"

	"connectrpc.com/connect"

	"github.com/bursar/bursar/client"
	"github.com/bursar/bursar/internal/cli/outputs"
	bursarv1 "github.com/bursar/bursar/proto/bursar/v1"
	"github.com/bursar/bursar/proto/bursar/v1/bursarv1connect"
)

// server answers each call of Logs with the next script.
type server struct {
	bursarv1connect.UnimplementedEngineServiceHandler

	mu      sync.Mutex
	calls   []*bursarv1.LogsRequest
	scripts []func(*connect.ServerStream[bursarv1.LogsResponse]) error
}

func (s *server) Logs(_ context.Context, req *bursarv1.LogsRequest, stream *connect.ServerStream[bursarv1.LogsResponse]) error {
	s.mu.Lock()
	n := len(s.calls)
	s.calls = append(s.calls, req)
	s.mu.Unlock()
	if n >= len(s.scripts) {
		return connect.NewError(connect.CodeInternal, errors.New("one call too many"))
	}
	return s.scripts[n](stream)
}

func data(next int64, text string) *bursarv1.LogsResponse {
	return &bursarv1.LogsResponse{NextOffset: next, Piece: &bursarv1.LogsResponse_Data{Data: []byte(text)}}
}

func gap(next, size int64) *bursarv1.LogsResponse {
	return &bursarv1.LogsResponse{NextOffset: next, Piece: &bursarv1.LogsResponse_Gap{Gap: size}}
}

func end(next int64) *bursarv1.LogsResponse {
	return &bursarv1.LogsResponse{NextOffset: next, Piece: &bursarv1.LogsResponse_End{End: &bursarv1.LogsEnd{}}}
}

// sends is a call that has some pieces and ends with an error; nil is its proper end.
func sends(err error, pieces ...*bursarv1.LogsResponse) func(*connect.ServerStream[bursarv1.LogsResponse]) error {
	return func(stream *connect.ServerStream[bursarv1.LogsResponse]) error {
		for _, piece := range pieces {
			if err := stream.Send(piece); err != nil {
				return err
			}
		}
		return err
	}
}

// breaks ends the connection after some pieces.
func breaks(pieces ...*bursarv1.LogsResponse) func(*connect.ServerStream[bursarv1.LogsResponse]) error {
	return func(stream *connect.ServerStream[bursarv1.LogsResponse]) error {
		_ = sends(nil, pieces...)(stream)
		panic(http.ErrAbortHandler)
	}
}

var errAway = connect.NewError(connect.CodeUnavailable, errors.New("no coordinator leads"))

// read reads from a server, and returns what was written and told.
func read(t *testing.T, s *server, change func(*outputs.Reader)) (output, told string, err error) {
	t.Helper()
	mux := http.NewServeMux()
	mux.Handle(bursarv1connect.NewEngineServiceHandler(s))
	served := httptest.NewServer(mux)
	t.Cleanup(served.Close)
	cl, err := client.New(served.URL)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(cl.Close)
	var out bytes.Buffer
	var words strings.Builder
	r := &outputs.Reader{
		Client: cl, Request: &bursarv1.LogsRequest{Id: "a", Stream: bursarv1.OutputStream_OUTPUT_STREAM_STDOUT, Follow: true}, To: &out,
		Gap:       func(from, to int64) { fmt.Fprintf(&words, "gap %d to %d;", from, to) },
		Uncounted: func() { words.WriteString("uncounted;") },
		Lost:      func(error) { words.WriteString("lost;") },
	}
	if change != nil {
		change(r)
	}
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
	defer cancel()
	err = r.Copy(ctx)
	if r.Total() != int64(out.Len()) {
		t.Errorf("%d bytes are counted, and %d were written", r.Total(), out.Len())
	}
	return out.String(), words.String(), err
}

func TestAReaderGoesOnAtTheNextByte(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		scripts      []func(*connect.ServerStream[bursarv1.LogsResponse]) error
		output, told string
		offsets      []int64 // of the calls after the first
	}{
		"at once":                {[]func(*connect.ServerStream[bursarv1.LogsResponse]) error{sends(nil, data(2, "ab"), data(4, "\xff\x00"), end(4))}, "ab\xff\x00", "", nil},
		"no output":              {[]func(*connect.ServerStream[bursarv1.LogsResponse]) error{sends(nil, end(0))}, "", "", nil},
		"a connection is cut":    {[]func(*connect.ServerStream[bursarv1.LogsResponse]) error{breaks(data(2, "ab")), sends(nil, data(4, "cd"), end(4))}, "abcd", "", []int64{2}},
		"cut before the first":   {[]func(*connect.ServerStream[bursarv1.LogsResponse]) error{breaks(), sends(nil, data(2, "ab"), end(2))}, "ab", "", []int64{0}},
		"the leader changes":     {[]func(*connect.ServerStream[bursarv1.LogsResponse]) error{sends(errAway, data(2, "ab")), sends(errAway), sends(nil, data(3, "c"), end(3))}, "abc", "lost;", []int64{2, 2}},
		"it ends without an end": {[]func(*connect.ServerStream[bursarv1.LogsResponse]) error{sends(nil, data(2, "ab")), sends(nil, end(2))}, "ab", "", []int64{2}},
		"bytes come twice":       {[]func(*connect.ServerStream[bursarv1.LogsResponse]) error{breaks(data(3, "abc")), sends(nil, data(2, "ab"), data(5, "bcde"), end(5))}, "abcde", "", []int64{3}},
		"a gap":                  {[]func(*connect.ServerStream[bursarv1.LogsResponse]) error{sends(nil, data(2, "ab"), gap(10, 8), data(11, "k"), end(11))}, "abk", "gap 2 to 10;", nil},
		"a gap at first":         {[]func(*connect.ServerStream[bursarv1.LogsResponse]) error{sends(nil, gap(10, 10), data(11, "k"), end(11))}, "k", "gap 0 to 10;", nil},
		"a gap that nobody says": {
			[]func(*connect.ServerStream[bursarv1.LogsResponse]) error{breaks(data(2, "ab")), sends(nil, data(11, "k"), end(12))}, "abk", "gap 2 to 10;gap 11 to 12;", []int64{2},
		},
		"a gap that overlaps":      {[]func(*connect.ServerStream[bursarv1.LogsResponse]) error{breaks(data(5, "abcde")), sends(nil, gap(10, 10), end(10))}, "abcde", "gap 5 to 10;", []int64{5}},
		"pieces of later versions": {[]func(*connect.ServerStream[bursarv1.LogsResponse]) error{sends(nil, &bursarv1.LogsResponse{NextOffset: 77}, data(2, "ab"), end(2))}, "ab", "", nil},
		"uncounted": {
			[]func(*connect.ServerStream[bursarv1.LogsResponse]) error{sends(nil, &bursarv1.LogsResponse{NextOffset: 1, Piece: &bursarv1.LogsResponse_Data{Data: []byte("a")}, Uncounted: true}, end(1))}, "a", "uncounted;", nil,
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := &server{scripts: test.scripts}
			output, told, err := read(t, s, nil)
			if err != nil || output != test.output || told != test.told {
				t.Errorf("%q, told %q, %v; want %q, %q", output, told, err, test.output, test.told)
			}
			for i, want := range test.offsets {
				if got := s.calls[i+1].GetOffset(); got != want {
					t.Errorf("call %d begins at %d, want %d", i+1, got, want)
				}
			}
			if len(s.calls) != len(test.scripts) {
				t.Errorf("%d calls, want %d", len(s.calls), len(test.scripts))
			}
		})
	}
}

// Without a count, other bytes may be at an offset after a pause: files were removed meanwhile.
func TestUncountedOutputIsNotGoneOnWith(t *testing.T) {
	t.Parallel()
	uncounted := func(msg *bursarv1.LogsResponse) *bursarv1.LogsResponse {
		msg.Uncounted = true
		return msg
	}
	for name, test := range map[string]struct {
		scripts      []func(*connect.ServerStream[bursarv1.LogsResponse]) error
		output, told string
		broken       bool
	}{
		"cut":                     {[]func(*connect.ServerStream[bursarv1.LogsResponse]) error{breaks(uncounted(data(2, "ab"))), sends(nil, uncounted(data(4, "cd")), end(4))}, "ab", "uncounted;", true},
		"the leader changes":      {[]func(*connect.ServerStream[bursarv1.LogsResponse]) error{sends(errAway, uncounted(data(2, "ab"))), sends(nil, data(4, "cd"), end(4))}, "ab", "uncounted;", true},
		"no longer counted":       {[]func(*connect.ServerStream[bursarv1.LogsResponse]) error{breaks(data(2, "ab")), sends(nil, uncounted(data(4, "cd")), end(4))}, "ab", "", true},
		"cut before its first":    {[]func(*connect.ServerStream[bursarv1.LogsResponse]) error{breaks(&bursarv1.LogsResponse{Uncounted: true}), sends(nil, uncounted(data(2, "ab")), end(2))}, "ab", "uncounted;", false},
		"a word without any byte": {[]func(*connect.ServerStream[bursarv1.LogsResponse]) error{sends(errAway), sends(nil, uncounted(data(2, "ab")), end(2))}, "ab", "lost;uncounted;", false},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			output, told, err := read(t, &server{scripts: test.scripts}, nil)
			wrong, broken := errors.AsType[*outputs.UncountedError](err)
			if output != test.output || told != test.told || broken != test.broken || broken && wrong.Offset != 2 || !broken && err != nil {
				t.Errorf("%q, told %q, %v", output, told, err)
			}
		})
	}
}

// A reader that began at the last lines goes on at a byte.
func TestATailIsResumedAtItsByte(t *testing.T) {
	t.Parallel()
	s := &server{scripts: []func(*connect.ServerStream[bursarv1.LogsResponse]) error{breaks(data(1002, "ab")), sends(nil, data(1003, "c"), end(1003))}}
	output, told, err := read(t, s, func(r *outputs.Reader) { r.Request.Start = &bursarv1.LogsRequest_TailLines{TailLines: 1} })
	if err != nil || output != "abc" || told != "" {
		t.Errorf("%q, %q, %v", output, told, err)
	}
	if s.calls[0].GetTailLines() != 1 || s.calls[1].GetOffset() != 1002 {
		t.Errorf("calls: %v", s.calls)
	}
}

func TestAnAnswerEndsAReader(t *testing.T) {
	t.Parallel()
	for _, code := range []connect.Code{connect.CodeNotFound, connect.CodePermissionDenied, connect.CodeFailedPrecondition, connect.CodeUnimplemented} {
		s := &server{scripts: []func(*connect.ServerStream[bursarv1.LogsResponse]) error{sends(connect.NewError(code, errors.New("no")))}}
		if _, told, err := read(t, s, nil); connect.CodeOf(err) != code || told != "" {
			t.Errorf("%s: %v, told %q", code, err, told)
		}
	}
}

// Once the engine has ended, output that does not come is not waited for without end.
func TestAReaderHasPatience(t *testing.T) {
	t.Parallel()
	over := make(chan struct{})
	close(over)
	for name, change := range map[string]func(*outputs.Reader){
		"patience":      func(r *outputs.Reader) { r.Patience = 100 * time.Millisecond },
		"last patience": func(r *outputs.Reader) { r.Over, r.LastPatience = over, 100*time.Millisecond },
	} {
		s := &server{}
		for range 50 {
			s.scripts = append(s.scripts, sends(errAway))
		}
		if _, told, err := read(t, s, change); connect.CodeOf(err) != connect.CodeUnavailable || told != "lost;" {
			t.Errorf("%s: %v, told %q", name, err, told)
		}
	}
}

// A server that counts wrongly is no reason to write what nobody can count.
func TestWrongOffsetsAreRefused(t *testing.T) {
	t.Parallel()
	for name, piece := range map[string]*bursarv1.LogsResponse{
		"more than there can be": data(1, "abc"), "a gap before the first byte": gap(5, 10), "a negative gap": gap(5, -10),
	} {
		s := &server{scripts: []func(*connect.ServerStream[bursarv1.LogsResponse]) error{sends(nil, piece, end(100))}}
		if output, _, err := read(t, s, nil); connect.CodeOf(err) != connect.CodeInternal || output != "" {
			t.Errorf("%s: %q, %v", name, output, err)
		}
	}
}

type brokenWriter struct{}

func (brokenWriter) Write([]byte) (int, error) { return 0, errors.New("no space") }

func TestAWriterThatFailsEndsAReader(t *testing.T) {
	t.Parallel()
	s := &server{scripts: []func(*connect.ServerStream[bursarv1.LogsResponse]) error{sends(nil, data(2, "ab"), end(2))}}
	_, _, err := read(t, s, func(r *outputs.Reader) { r.To = brokenWriter{} })
	if _, ok := errors.AsType[*outputs.WriteError](err); !ok {
		t.Errorf("%v", err)
	}
}
