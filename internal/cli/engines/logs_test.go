package engines

import (
	"errors"
	"strings"
	"sync"
	"testing"
	"time"

	"connectrpc.com/connect"
	"google.golang.org/protobuf/types/known/timestamppb"

	bursarv1 "github.com/bursar/bursar/proto/bursar/v1"
)

// firstTry and secondTry are the tries of an engine. The first one fails while its output is read.
const firstTry, secondTry = "0000000000001", "0000000000002"

// triedAgain is a coordinator with an engine whose second try begins once the output of the first
// one was read.
func triedAgain(t *testing.T) (f *fake, failed func()) {
	t.Helper()
	f = newFake(t)
	var mu sync.Mutex
	over, read, looks := false, false, 0
	f.onRead = func(req *bursarv1.AllocationServiceGetRequest) *bursarv1.Allocation {
		mu.Lock()
		defer mu.Unlock()
		if read { // its end is known a moment after its output has ended
			looks++
			over = over || looks > 2
		}
		a := &bursarv1.Allocation{
			Id: firstTry, HostId: "h1", State: bursarv1.AllocationState_ALLOCATION_STATE_ACTIVE, Phase: bursarv1.Phase_PHASE_STARTING,
			Launch: &bursarv1.Launch{LogDirectory: "/logs", Retries: 1},
		}
		switch {
		case over && (req.GetLastTry() || req.GetId() == secondTry):
			a.Id, a.HostId, a.Phase = secondTry, "h2", bursarv1.Phase_PHASE_READY
		case over:
			a.State, a.EndTime, a.Launch.SuccessorId = bursarv1.AllocationState_ALLOCATION_STATE_RELEASED, timestamppb.Now(), secondTry
		}
		return a
	}
	f.onLogs = func(req *bursarv1.LogsRequest, stream *connect.ServerStream[bursarv1.LogsResponse]) error {
		mu.Lock()
		read = true
		mu.Unlock()
		text := map[string]string{firstTry: "one", secondTry: "two"}[req.GetId()][req.GetOffset():]
		return stream.Send(&bursarv1.LogsResponse{NextOffset: req.GetOffset() + int64(len(text)), Piece: &bursarv1.LogsResponse_Data{Data: []byte(text)}})
	}
	close(f.ended)
	return f, func() {
		mu.Lock()
		defer mu.Unlock()
		over = true
	}
}

func TestLogsGoOnWithTheNextTry(t *testing.T) {
	f, _ := triedAgain(t)
	f.output[bursarv1.OutputStream_OUTPUT_STREAM_STDOUT] = "" // onLogs sends it
	code, stdout, stderr := f.run(t, "logs", "-f", firstTry)
	if code != 0 || stdout != "onetwo" || !strings.Contains(stderr, "was tried again as "+secondTry+" on host h2") {
		t.Errorf("code %d, %q, %q", code, stdout, stderr)
	}
}

func TestLogsAreThoseOfTheLastTry(t *testing.T) {
	for want, args := range map[string][]string{"two": nil, "one": {"--this-try"}} {
		f, failed := triedAgain(t)
		failed()
		code, stdout, stderr := f.run(t, append([]string{"logs", firstTry}, args...)...)
		if code != 0 || stdout != want || strings.Contains(stderr, secondTry) != (want == "two") {
			t.Errorf("%v: code %d, %q, %q", args, code, stdout, stderr)
		}
	}
}

// A host that is away for long is told at once, unless the output is followed.
func TestLogsOfASuspectHostEndAtOnce(t *testing.T) {
	f := newFake(t)
	f.engine = f.begun()
	f.onLogs = func(*bursarv1.LogsRequest, *connect.ServerStream[bursarv1.LogsResponse]) error {
		return connect.NewError(connect.CodeDeadlineExceeded, errors.New("host h1 is suspect: its agent was last heard of 25s ago"))
	}
	began := time.Now()
	code, _, stderr := f.run(t, "logs", fakeID)
	if took := time.Since(began); code != 69 || took > 10*time.Second || !strings.Contains(stderr, "host h1 is suspect") {
		t.Errorf("code %d after %s, %q", code, took, stderr)
	}
}

func TestLogsHaveNoOtherForm(t *testing.T) {
	f := newFake(t)
	f.engine = f.begun()
	if code, _, stderr := f.run(t, "logs", "-o", "json", fakeID); code != 64 || !strings.Contains(stderr, "-o json") || f.was("logs") {
		t.Errorf("code %d, %q", code, stderr)
	}
}
