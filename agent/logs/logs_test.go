package logs

import (
	"context"
	"errors"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"connectrpc.com/connect"

	"github.com/bursar/bursar/agent/launch"
	"github.com/bursar/bursar/agent/output"
	"github.com/bursar/bursar/internal/osuser"
	bursarv1 "github.com/bursar/bursar/proto/bursar/v1"
)

// machine is what an agent knows of its host.
type machine struct {
	engines  map[string]Engine
	accounts map[string]osuser.User
}

func (m *machine) Named(_ context.Context, name string) (osuser.User, error) {
	user, there := m.accounts[name]
	if !there {
		return user, osuser.ErrNoUser
	}
	return user, nil
}

func newLogs(t *testing.T) (*Logs, *machine) {
	t.Helper()
	m := &machine{engines: make(map[string]Engine), accounts: make(map[string]osuser.User)}
	l := New(Options{
		Spawner: &launch.Direct{}, Keeper: "/no/such", LogDir: filepath.Join(t.TempDir(), "logs"), Users: m, Records: launch.Records(filepath.Join(t.TempDir(), "engines")),
		Engine: func(id string) Engine { return m.engines[id] }, Log: slog.New(slog.DiscardHandler),
	})
	return l, m
}

func open(t *testing.T, l *Logs, path string) {
	t.Helper()
	if err := l.Open(path); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = l.Close() })
}

// What an agent has noted its next incarnation knows.
func TestFoldersOutliveTheAgent(t *testing.T) {
	path := filepath.Join(t.TempDir(), output.FoldersFile)
	l, _ := newLogs(t)
	open(t, l, path)
	l.Begins("1", "/logs/1", osuser.User{Name: "etl", UID: 1200})
	l.Ended("1")
	if err := l.Close(); err != nil {
		t.Fatal(err)
	}
	if _, err := l.Find("1"); connect.CodeOf(err) != connect.CodeUnavailable {
		t.Errorf("while the agent ends: %v", err)
	}
	next, _ := newLogs(t)
	open(t, next, path)
	if entry, err := next.Find("1"); err != nil || entry.Folder != "/logs/1" || entry.UID != 1200 || entry.Ended.IsZero() {
		t.Errorf("%+v, %v", entry, err)
	}
}

// An engine whose launch is noted by an agent that kept no list is found, too; others are named by
// how they came to run.
func TestWhereOutputIs(t *testing.T) {
	l, m := newLogs(t)
	open(t, l, filepath.Join(t.TempDir(), output.FoldersFile))
	m.engines["own"] = Engine{Runs: true}
	m.engines["launched"] = Engine{Runs: true, Launched: true}
	for id, words := range map[string]string{"own": "started its engine", "launched": "has no output", "unknown": "has no output"} {
		if _, err := l.Find(id); connect.CodeOf(err) != connect.CodeFailedPrecondition || !strings.Contains(err.Error(), words) {
			t.Errorf("%s: %v", id, err)
		}
	}
}

// An engine whose end nobody has told ends at the second look at which it does not run.
func TestEndsThatNobodyToldAreNoticed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l, m := newLogs(t)
		open(t, l, filepath.Join(t.TempDir(), output.FoldersFile))
		for _, id := range []string{"runs", "ended"} {
			if err := os.MkdirAll(filepath.Join(l.LogDir, id), 0o755); err != nil {
				t.Fatal(err)
			}
			l.Begins(id, filepath.Join(l.LogDir, id), osuser.User{Name: "etl", UID: 1200})
			m.engines[id] = Engine{Runs: true, Launched: true}
		}
		ctx, cancel := context.WithCancel(t.Context())
		done := make(chan error, 1)
		go func() { done <- l.Run(ctx) }()
		defer func() {
			cancel()
			_ = <-done // it never fails
		}()
		ended := func(id string) bool {
			entry, err := l.Find(id)
			if err != nil {
				t.Fatal(err)
			}
			return !entry.Ended.IsZero()
		}
		time.Sleep(sweepEvery + time.Second)
		m.engines["ended"] = Engine{}
		time.Sleep(sweepEvery)
		if ended("ended") {
			t.Error("it counts as ended after one look")
		}
		time.Sleep(sweepEvery)
		if !ended("ended") || ended("runs") {
			t.Errorf("ended: %v, and the one that runs: %v", ended("ended"), ended("runs"))
		}
	})
}

// A name that is another account's by now does not open the files.
func TestAnAccountMustBeTheSame(t *testing.T) {
	l, m := newLogs(t)
	open(t, l, filepath.Join(t.TempDir(), output.FoldersFile))
	l.Begins("1", "/logs/1", osuser.User{Name: "etl", UID: 1200})
	m.accounts["etl"] = osuser.User{Name: "etl", UID: 1300}
	err := l.Send(t.Context(), "alice", &bursarv1.LogsRequest{Id: "1", Stream: bursarv1.OutputStream_OUTPUT_STREAM_STDOUT}, nil)
	if connect.CodeOf(err) != connect.CodeFailedPrecondition || !strings.Contains(err.Error(), "want uid 1200") {
		t.Error(err)
	}
	err = l.Send(t.Context(), "alice", &bursarv1.LogsRequest{Id: "1"}, nil)
	if connect.CodeOf(err) != connect.CodeInvalidArgument {
		t.Errorf("without a stream: %v", err)
	}
}

// Readers decide by codes.
func TestCodes(t *testing.T) {
	for _, c := range []struct {
		err  error
		want connect.Code
	}{
		{&output.BusyError{Caller: "alice", Limit: 1}, connect.CodeResourceExhausted},
		{&output.AccountError{}, connect.CodeFailedPrecondition},
		{&output.Error{Code: output.Gone}, connect.CodeFailedPrecondition},
		{&output.Error{Code: output.Invalid}, connect.CodeInvalidArgument},
		{&output.Error{Code: output.Internal}, connect.CodeInternal},
		{errors.New("the helper has ended"), connect.CodeUnavailable},
		{connect.NewError(connect.CodeAborted, nil), connect.CodeAborted},
	} {
		if got := connect.CodeOf(withCode(c.err)); got != c.want {
			t.Errorf("%v: %s, want %s", c.err, got, c.want)
		}
	}
}
