package output

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/bursar/bursar/agent/launch"
	"github.com/bursar/bursar/agent/output/reading"
	"github.com/bursar/bursar/test/underrace"
)

// A reader that never reads holds up its own helper, which takes little memory, and no other one.
func TestAReaderThatNeverReads(t *testing.T) {
	h := newHost(t)
	folder := h.folder("logs")
	h.write(filepath.Join(folder, "stdout"), "")
	if err := os.Truncate(filepath.Join(folder, "stdout"), 1<<30); err != nil {
		t.Fatal(err)
	}
	idle := h.open(h.request(folder))
	r := h.request(folder)
	r.From = 1<<30 - 10
	if got, err := h.read(r); err != nil || len(got) != 10 {
		t.Errorf("another reader: %d bytes, %v", len(got), err)
	}
	r.From = 1<<30 - 32<<20
	if got, err := h.read(r); err != nil || len(got) != 32<<20 {
		t.Errorf("another reader: %d bytes, %v", len(got), err)
	}
	if rss := residentOf(t, idle); rss > underrace.Factor*20<<10 {
		t.Errorf("the helper takes %d kB", rss)
	}
	if err := idle.Close(); err != nil {
		t.Error(err)
	}
	h.opener.Wait()
}

// pidOf is a helper's process.
func pidOf(t *testing.T, r *Reader) string {
	t.Helper()
	text, err := os.ReadFile("/proc/self/fdinfo/" + strconv.Itoa(r.helper.fd))
	if err != nil {
		t.Fatal(err)
	}
	_, rest, _ := strings.Cut(string(text), "Pid:")
	pid, _, _ := strings.Cut(rest, "\n")
	return strings.TrimSpace(pid)
}

func residentOf(t *testing.T, r *Reader) int {
	t.Helper()
	text, err := os.ReadFile("/proc/" + pidOf(t, r) + "/status")
	if err != nil {
		t.Fatal(err)
	}
	_, rest, _ := strings.Cut(string(text), "VmHWM:")
	line, _, _ := strings.Cut(rest, "\n")
	kb, err := strconv.Atoi(strings.TrimSuffix(strings.TrimSpace(line), " kB"))
	if err != nil {
		t.Fatal(err)
	}
	return kb
}

// The helper is the user's process, with nothing of the agent's.
func TestHelpersHaveNothingOfTheAgents(t *testing.T) {
	h := newHost(t)
	folder, _ := h.engine(launch.Logs{}, "sleep 1000")
	r := h.request(folder)
	r.Follow = true
	f := h.open(r)
	proc := "/proc/" + pidOf(t, f)
	status, err := os.ReadFile(proc + "/status")
	if err != nil {
		t.Fatal(err)
	}
	uid := strconv.FormatUint(uint64(h.user.UID), 10)
	wants := []string{"Uid:\t" + uid + "\t" + uid + "\t" + uid + "\t" + uid}
	if os.Geteuid() == 0 {
		wants = append(wants, "NoNewPrivs:\t1", "CapEff:\t0000000000000000", "CapPrm:\t0000000000000000")
	}
	for _, want := range wants {
		if !strings.Contains(string(status), want) {
			t.Errorf("want %q in %s", want, status)
		}
	}
	environment, err := os.ReadFile(proc + "/environ")
	if err != nil || strings.Trim(string(environment), "\x00") != "PATH=/usr/local/bin:/usr/bin:/bin" {
		t.Errorf("%q, %v", environment, err)
	}
	open, err := os.ReadDir(proc + "/fd")
	if err != nil {
		t.Fatal(err)
	}
	for _, entry := range open {
		target, err := os.Readlink(proc + "/fd/" + entry.Name())
		runtime := strings.HasPrefix(target, "/sys/fs/cgroup/") // of Go's, which looks at the limit of CPUs
		ours := runtime || strings.HasPrefix(target, folder) || strings.HasPrefix(target, "pipe:") || strings.HasPrefix(target, "anon_inode:") || target == os.DevNull
		if err != nil || !ours {
			t.Errorf("descriptor %s is %s, %v", entry.Name(), target, err)
		}
	}
}

func TestHelpersEndWithTheirReader(t *testing.T) {
	h := newHost(t)
	folder, _ := h.engine(launch.Logs{}, "echo hello; sleep 1000")
	r := h.request(folder)
	r.Follow = true
	for name, end := range map[string]func(f *Reader, cancel context.CancelFunc){
		"closed":  func(f *Reader, _ context.CancelFunc) { _ = f.Close() },
		"context": func(_ *Reader, cancel context.CancelFunc) { cancel() },
		"the agent ends": func(f *Reader, _ context.CancelFunc) { // its descriptors are closed
			_ = errors.Join(f.control.Close(), f.data.Close())
		},
		"stopped by its user": func(f *Reader, _ context.CancelFunc) {
			f.signal(t, unix.SIGSTOP)
			_ = f.Close()
		},
	} {
		t.Run(name, func(t *testing.T) {
			ctx, cancel := context.WithCancel(t.Context())
			defer cancel()
			f, err := h.opener.Open(ctx, r)
			if err != nil {
				t.Fatal(err)
			}
			if part, err := f.Next(); err != nil || string(part.Data) != "hello\n" {
				t.Fatal(part, err)
			}
			pid, err := strconv.ParseInt(pidOf(t, f), 10, 32)
			if err != nil {
				t.Fatal(err)
			}
			process := openHelper(int32(pid))
			defer process.file.Close()
			end(f, cancel)
			if !process.ended(endGrace * 10) {
				t.Error("the helper goes on")
			}
			if _, err := f.Next(); err == nil {
				t.Error("it reads on")
			}
			_ = f.Close()
		})
	}
	h.opener.Wait()
}

func TestAKilledHelperIsAnError(t *testing.T) {
	h := newHost(t)
	folder, _ := h.engine(launch.Logs{}, "sleep 1000")
	r := h.request(folder)
	r.Follow = true
	f := h.open(r)
	f.signal(t, unix.SIGKILL)
	if _, err := f.Next(); err == nil || !strings.Contains(err.Error(), "has ended") {
		t.Error(err)
	}
}

func TestReadersAreBounded(t *testing.T) {
	h := newHost(t)
	folder := h.folder("logs")
	h.write(filepath.Join(folder, "stdout"), "x")
	h.opener.Limits = func() Limits { return Limits{All: 3, PerCaller: 2} }
	open := func(caller string) (*Reader, error) {
		r := h.request(folder)
		r.Caller, r.Follow = caller, true
		return h.opener.Open(t.Context(), r)
	}
	var readers []*Reader
	for _, test := range []struct{ caller, refused string }{{"a", "-"}, {"a", "-"}, {"a", "a"}, {"b", "-"}, {"b", ""}} {
		f, err := open(test.caller)
		busy, is := errors.AsType[*BusyError](err)
		if is != (test.refused != "-") || is && busy.Caller != test.refused {
			t.Errorf("%s: %v", test.caller, err)
		}
		if err == nil {
			readers = append(readers, f)
		}
	}
	for _, f := range readers {
		_ = f.Close()
	}
	h.opener.Wait()
	if f, err := open("b"); err != nil {
		t.Error(err)
	} else {
		_ = f.Close()
	}
	if h.opener.Wait(); h.opener.seats.all != 0 || len(h.opener.seats.taken) != 0 {
		t.Errorf("%+v", &h.opener.seats)
	}
}

// An account that was made anew with another uid does not get the output of the one before.
func TestOutputIsOfAUidNotOfAName(t *testing.T) {
	h := newHost(t)
	r := h.request(h.folder("logs"))
	r.User.UID++
	if _, err := h.opener.Open(t.Context(), r); err == nil {
		t.Error("it was opened")
	} else if wrong, is := errors.AsType[*AccountError](err); !is || wrong.Now != r.User.UID {
		t.Error(err)
	}
}

func TestNonsenseIsRefused(t *testing.T) {
	h := newHost(t)
	good := h.request(h.folder("logs"))
	for name, change := range map[string]func(r *Request){
		"from":   func(r *Request) { r.From = -1 },
		"far":    func(r *Request) { r.From = 1<<63 - 1 },
		"stream": func(r *Request) { r.Stream = "../stdout" },
		"folder": func(r *Request) { r.Entry.Folder = "logs" },
		"long":   func(r *Request) { r.Entry.Folder = "/" + strings.Repeat("x", 100_000) },
		"lines":  func(r *Request) { r.TailLines = 1 << 30 },
		"bytes":  func(r *Request) { r.TailBytes = -1 },
	} {
		r := good
		change(&r)
		if _, err := h.opener.Open(t.Context(), r); err == nil {
			t.Errorf("%s: it was opened", name)
		} else if wrong, is := errors.AsType[*Error](err); !is || wrong.Code != Invalid {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// What a helper sends is checked: its user may have changed it.
func TestALyingHelper(t *testing.T) {
	frame := func(kind byte, a, b int64, data string) string {
		p := make([]byte, 17)
		reading.PutHeader(p, reading.FrameKind(kind), a, b)
		return string(p) + data
	}
	start := frame('s', 5, 1, "")
	for name, said := range map[string]string{
		"nothing":          "",
		"text":             strings.Repeat("x", 100),
		"a keeper":         `{"error":"no\u001b[31mrights"}` + "\n",
		"no keeper":        strings.Repeat("{", 100),
		"a negative start": frame('s', -1, 1, ""),
		"two starts":       start + start,
		"another offset":   start + frame('d', 6, 1, "x"),
		"no length":        start + frame('d', 5, 0, ""),
		"a length":         start + frame('d', 5, 1<<40, "x"),
		"less":             start + frame('d', 5, 10, "x"),
		"a gap backwards":  start + frame('g', 5, 4, ""),
		"a gap elsewhere":  start + frame('g', 6, 9, ""),
		"a huge gap":       start + frame('g', 5, 1<<62+1, ""),
		"an error":         start + frame('x', 'z', 1, "x"),
		"a long error":     start + frame('x', 'i', 1<<40, "x"),
	} {
		t.Run(name, func(t *testing.T) {
			input, control, err := os.Pipe()
			if err != nil {
				t.Fatal(err)
			}
			defer input.Close()
			data, output, err := os.Pipe()
			if err != nil {
				t.Fatal(err)
			}
			r := newReader(t.Context(), helper{fd: -1}, control, data)
			defer r.Close()
			if _, err := output.WriteString(said); err != nil {
				t.Fatal(err)
			}
			_ = output.Close()
			err = r.begin([]byte("{}\n"))
			for err == nil {
				_, err = r.Next()
			}
			if _, typed := errors.AsType[*Error](err); typed || strings.ContainsRune(err.Error(), 27) {
				t.Error(err)
			}
		})
	}
}
