package output

import (
	"context"
	"errors"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"go.uber.org/goleak"
	"golang.org/x/sys/unix"

	"github.com/bursar/bursar/agent/keeper"
	"github.com/bursar/bursar/agent/launch"
	"github.com/bursar/bursar/internal/hold"
	"github.com/bursar/bursar/internal/osuser"
	"github.com/bursar/bursar/test/proc"
)

// The engine's user is nobody if this is root.
const nobody = 65534

func TestMain(m *testing.M) {
	hold.Wait()
	if filepath.Base(os.Args[0]) == "bursar-keeper" { // this binary is the keeper, too
		os.Exit(keeper.Main())
	}
	goleak.VerifyTestMain(m)
}

// host is a machine with helpers.
type host struct {
	t      testing.TB
	dir    string // every user may enter it
	direct *launch.Direct
	opener *Opener
	user   osuser.User
}

func newHost(t testing.TB) *host {
	t.Helper()
	dir, err := os.MkdirTemp("", "output") //nolint:usetesting // t.TempDir is for its owner alone
	if err != nil {
		t.Fatal(err)
	}
	self, err := os.ReadFile("/proc/self/exe")
	if err != nil {
		t.Fatal(err)
	}
	program := filepath.Join(dir, "bursar-keeper")
	if err := errors.Join(os.Chmod(dir, 0o755), os.WriteFile(program, self, 0o755)); err != nil {
		t.Fatal(err)
	}
	h := &host{t: t, dir: dir, direct: &launch.Direct{}, user: osuser.Self()}
	if os.Geteuid() == 0 {
		h.user = osuser.User{Name: "nobody", UID: nobody, GID: nobody, Groups: []uint32{nobody}}
	}
	h.user.Home = "/"
	h.opener = &Opener{Spawner: h.direct, Keeper: program}
	t.Cleanup(func() {
		h.opener.Wait()
		h.direct.Reap()
		_ = os.RemoveAll(dir)
	})
	return h
}

// folder makes a folder of the user.
func (h *host) folder(name string) string {
	h.t.Helper()
	path := filepath.Join(h.dir, name)
	if err := os.Mkdir(path, 0o700); err != nil {
		h.t.Fatal(err)
	}
	h.own(path)
	return path
}

// own makes what a test has put there the user's.
func (h *host) own(paths ...string) {
	h.t.Helper()
	for _, path := range paths {
		if err := os.Lchown(path, int(h.user.UID), int(h.user.GID)); os.Geteuid() == 0 && err != nil {
			h.t.Fatal(err)
		}
	}
}

func (h *host) write(path, content string) {
	h.t.Helper()
	if err := os.WriteFile(path, []byte(content), 0o600); err != nil {
		h.t.Fatal(err)
	}
	h.own(path)
}

func (h *host) request(folder string) Request {
	return Request{Caller: "c", Entry: Entry{ID: "a1", Folder: folder, User: h.user.Name, UID: h.user.UID}, User: h.user, Stream: Stdout}
}

func (h *host) open(r Request) *Reader {
	h.t.Helper()
	reader, err := h.opener.Open(context.Background(), r)
	if err != nil {
		h.t.Fatal(err)
	}
	h.t.Cleanup(func() { _ = reader.Close() })
	return reader
}

// all reads to the end. Gaps are "[FROM-TO]".
func all(r *Reader) (string, error) {
	defer r.Close()
	var text strings.Builder
	for {
		part, err := r.Next()
		if errors.Is(err, io.EOF) {
			return text.String(), nil
		}
		if err != nil {
			return text.String(), err
		}
		if part.Gap() {
			text.WriteString("[" + itoa(part.Offset) + "-" + itoa(part.To) + "]")
		}
		text.Write(part.Data)
	}
}

// read is all of what a request gives.
func (h *host) read(r Request) (string, error) {
	h.t.Helper()
	reader, err := h.opener.Open(context.Background(), r)
	if err != nil {
		return "", err
	}
	return all(reader)
}

// engine launches an engine as the user, and lets it begin.
func (h *host) engine(logs launch.Logs, script string) (folder string, pid int) {
	h.t.Helper()
	l := &launch.Launcher{Spawner: h.direct, Keeper: h.opener.Keeper, Records: launch.Records(filepath.Join(h.dir, "engines")), LogDir: filepath.Join(h.dir, "logs")}
	s, err := l.Start(context.Background(), launch.Request{ID: "a1", User: h.user, Command: []string{"/bin/sh", "-c", script}, WorkingDirectory: "/", Logs: logs})
	if err != nil {
		h.t.Fatal(err)
	}
	proc.KillGroupAtEnd(h.t, int(s.PID))
	keeper := proc.KillAtEnd(h.t, int(s.Keeper.PID))
	if err := s.Confirm(context.Background()); err != nil {
		h.t.Fatal(err)
	}
	return s.LogDir, keeper.PID
}

// ends waits until a helper has ended.
func (h *host) ends(r *Reader) {
	h.t.Helper()
	if !r.helper.ended(10 * time.Second) {
		h.t.Error("the helper has not ended")
	}
}

// signal signals a helper.
func (r *Reader) signal(t testing.TB, s unix.Signal) {
	t.Helper()
	if err := unix.PidfdSendSignal(r.helper.fd, s, nil, 0); err != nil {
		t.Fatal(err)
	}
}
