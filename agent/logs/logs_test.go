package logs

import (
	"bufio"
	"context"
	"errors"
	"log/slog"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"connectrpc.com/connect"
	"go.uber.org/goleak"
	"golang.org/x/sys/unix"

	"github.com/bursar/bursar/agent/launch"
	"github.com/bursar/bursar/agent/output"
	"github.com/bursar/bursar/agent/output/reading"
	"github.com/bursar/bursar/internal/osuser"
	bursarv1 "github.com/bursar/bursar/proto/bursar/v1"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// machine is what an agent knows of its host.
type machine struct {
	asked    func() // called when an account is looked up; nil: nothing is
	mu       sync.Mutex
	engines  map[string]Engine // guarded by mu
	accounts map[string]osuser.User
}

func (m *machine) Named(_ context.Context, name string) (osuser.User, error) {
	if m.asked != nil {
		m.asked()
	}
	user, there := m.accounts[name]
	if !there {
		return user, osuser.ErrNoUser
	}
	return user, nil
}

func (m *machine) engine(id string) Engine {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.engines[id]
}

func (m *machine) set(id string, e Engine) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.engines[id] = e
}

func newLogs(t *testing.T) (*Logs, *machine) {
	t.Helper()
	m := &machine{engines: make(map[string]Engine), accounts: make(map[string]osuser.User)}
	l := New(Options{
		Spawner: &launch.Direct{}, Keeper: "/no/such", LogDir: filepath.Join(t.TempDir(), "logs"), Users: m, Records: launch.Records(filepath.Join(t.TempDir(), "engines")),
		Engine: m.engine, Log: slog.New(slog.DiscardHandler),
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
			m.set(id, Engine{Runs: true, Launched: true})
		}
		ctx, cancel := context.WithCancel(t.Context())
		done := make(chan error, 1)
		go func() { done <- l.Run(ctx) }()
		defer func() {
			cancel()
			if err := <-done; err != nil {
				t.Error(err)
			}
		}()
		ended := func(id string) bool {
			entry, err := l.Find(id)
			if err != nil {
				t.Fatal(err)
			}
			return !entry.Ended.IsZero()
		}
		time.Sleep(sweepEvery + time.Second)
		m.set("ended", Engine{})
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

// helper plays a helper that follows the output of an engine, of which there is none.
type helper struct{ t *testing.T }

func (h helper) Spawn(_ context.Context, s launch.Spawn) (launch.Spawned, error) {
	said, out := reopen(h.t, s.Stdin), reopen(h.t, s.Stdout)
	go func() {
		defer said.Close()
		defer out.Close()
		lines := bufio.NewReader(said)
		frame := make([]byte, reading.HeaderSize)
		if _, err := lines.ReadString('\n'); err != nil {
			return
		}
		reading.PutHeader(frame, reading.FrameStart, 0, 1)
		_, _ = out.Write(frame) // its reader may have gone
		if word, err := lines.ReadByte(); err == nil && word == reading.EngineEnded {
			reading.PutHeader(frame, reading.FrameEnd, 0, 0)
			_, _ = out.Write(frame) // as above
		}
	}()
	return launch.Spawned{}, nil
}

// reopen is the same end of a pipe.
func reopen(t *testing.T, file *os.File) *os.File {
	fd, err := unix.FcntlInt(file.Fd(), unix.F_DUPFD_CLOEXEC, 0)
	if err != nil {
		t.Fatal(err)
	}
	return os.NewFile(uintptr(fd), file.Name())
}

// A reader hears of the end of its engine whenever that comes, also while the reader is opened.
func TestAReaderHearsOfTheEndOfItsEngine(t *testing.T) {
	for _, when := range []string{"before it asks", "while it is opened", "while it reads"} {
		l, m := newLogs(t)
		l.Spawner, l.opener.Spawner = helper{t}, helper{t}
		open(t, l, filepath.Join(t.TempDir(), output.FoldersFile))
		l.Begins("1", "/logs/1", osuser.User{Name: "etl", UID: 1200})
		m.accounts["etl"] = osuser.User{Name: "etl", UID: 1200}
		ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
		defer cancel()
		switch when {
		case "before it asks":
			l.Ended("1")
		case "while it is opened":
			m.asked = func() { l.Ended("1") }
		default:
			go func() {
				for ctx.Err() == nil {
					l.mu.Lock()
					reads := len(l.readers["1"]) > 0
					l.mu.Unlock()
					if reads {
						l.Ended("1")
						return
					}
					runtime.Gosched()
				}
			}()
		}
		ended := false
		err := l.Send(ctx, "alice", &bursarv1.LogsRequest{Id: "1", Stream: bursarv1.OutputStream_OUTPUT_STREAM_STDOUT, Follow: true}, func(m *bursarv1.LogsResponse) error {
			ended = ended || m.GetEnd() != nil
			return nil
		})
		if err != nil || !ended {
			t.Errorf("%s: ended %v, %v", when, ended, err)
		}
	}
}
