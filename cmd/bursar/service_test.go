package main

import (
	"bufio"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"
)

// service is a server that a service manager has started; this test plays the service manager. It
// gets the notifications and the log.
type service struct {
	t      *testing.T
	cmd    *exec.Cmd
	told   *feed
	logged *feed
	ended  chan struct{} // closed when it has
}

// feed is lines that come over time. One goroutine writes, one reads.
type feed struct {
	t     *testing.T
	name  string
	lines chan string
	seen  []string
}

func newFeed(t *testing.T, name string) *feed {
	return &feed{t: t, name: name, lines: make(chan string, 10_000)}
}

// until returns the next line that contains a text.
func (f *feed) until(text string) string {
	f.t.Helper()
	deadline := time.After(patience)
	for {
		select {
		case line, open := <-f.lines:
			if !open {
				f.t.Fatalf("%s ended without %q:\n%s", f.name, text, strings.Join(f.seen, "\n"))
			}
			f.seen = append(f.seen, line)
			if strings.Contains(line, text) {
				return line
			}
		case <-deadline:
			f.t.Fatalf("%s: no %q:\n%s", f.name, text, strings.Join(f.seen, "\n"))
		}
	}
}

// folderOfSockets has a short path that every user can enter.
func folderOfSockets(t *testing.T) string {
	t.Helper()
	dir, err := os.MkdirTemp("", "bursar") //nolint:usetesting // the path of a socket has at most 107 bytes
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = os.RemoveAll(dir) })
	if err := os.Chmod(dir, 0o755); err != nil {
		t.Fatal(err)
	}
	return dir
}

// startService runs bursar with a socket to notify, and with the environment variables in env.
// files become the descriptors from 3 on, and LISTEN_PID says that they are for it.
func startService(t *testing.T, env []string, files []*os.File, args ...string) *service {
	t.Helper()
	notify := filepath.Join(folderOfSockets(t), "notify")
	socket, err := net.ListenUnixgram("unixgram", &net.UnixAddr{Name: notify, Net: "unixgram"})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = socket.Close() })
	s := &service{t: t, told: newFeed(t, "what it told"), logged: newFeed(t, "the log"), ended: make(chan struct{})}
	// A shell becomes the program, so that the pid is known beforehand.
	s.cmd = exec.Command("sh", append([]string{"-c", `LISTEN_PID=$$ exec bursar "$@"`, "sh"}, args...)...)
	s.cmd.Env = append(os.Environ(), "NOTIFY_SOCKET="+notify, fmt.Sprintf("LISTEN_FDS=%d", len(files)))
	s.cmd.Env = append(s.cmd.Env, env...)
	s.cmd.ExtraFiles = files
	out, write, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	s.cmd.Stderr = write
	for _, variable := range env {
		if variable == "JOURNAL_STREAM=this" {
			s.cmd.Env = append(s.cmd.Env, "JOURNAL_STREAM="+placeOfFile(t, write))
		}
	}
	if err := s.cmd.Start(); err != nil {
		t.Fatal(err)
	}
	_ = write.Close()
	go func() {
		defer close(s.told.lines)
		message := make([]byte, 4096)
		for {
			n, err := socket.Read(message)
			if err != nil {
				return
			}
			s.told.lines <- string(message[:n])
		}
	}()
	go func() {
		defer close(s.logged.lines)
		for lines := bufio.NewScanner(out); lines.Scan(); {
			s.logged.lines <- lines.Text()
		}
		_ = out.Close()
	}()
	go func() {
		_ = s.cmd.Wait()
		close(s.ended)
	}()
	t.Cleanup(func() {
		_ = s.cmd.Process.Kill()
		<-s.ended
	})
	return s
}

// placeOfFile is a file as JOURNAL_STREAM names it.
func placeOfFile(t *testing.T, file *os.File) string {
	t.Helper()
	var stat syscall.Stat_t
	if err := syscall.Fstat(int(file.Fd()), &stat); err != nil {
		t.Fatal(err)
	}
	return fmt.Sprintf("%d:%d", stat.Dev, stat.Ino)
}

func (s *service) signal(sig syscall.Signal) {
	s.t.Helper()
	if err := s.cmd.Process.Signal(sig); err != nil {
		s.t.Fatal(err)
	}
}

// stops ends the service, without an error.
func (s *service) stops() {
	s.t.Helper()
	s.signal(syscall.SIGTERM)
	select {
	case <-s.ended:
	case <-time.After(patience):
		s.t.Fatal("it does not end")
	}
	if code := s.cmd.ProcessState.ExitCode(); code != 0 {
		s.t.Errorf("ended with code %d", code)
	}
}

// fails waits until the service has ended by itself with that code, and returns what it printed.
func (s *service) fails(code int) string {
	s.t.Helper()
	select {
	case <-s.ended:
	case <-time.After(patience):
		s.t.Fatal("it does not end")
	}
	if got := s.cmd.ProcessState.ExitCode(); got != code {
		s.t.Errorf("ended with code %d, want %d", got, code)
	}
	var all []string
	for line := range s.logged.lines {
		all = append(all, line)
	}
	return strings.Join(all, "\n")
}

// command runs bursar and returns what it printed, and its exit code.
func command(t *testing.T, args ...string) (out string, code int) {
	t.Helper()
	cmd := exec.Command("bursar", args...)
	printed, err := cmd.CombinedOutput()
	if err != nil && cmd.ProcessState == nil {
		t.Fatal(err)
	}
	return string(printed), cmd.ProcessState.ExitCode()
}

func writeConfig(t *testing.T, path, text string) {
	t.Helper()
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
}

// addressOf finds the address that a coordinator serves on, in its log.
func (s *service) address() string {
	s.t.Helper()
	_, rest, _ := strings.Cut(s.logged.until(`"msg":"serving"`), `"address":"`)
	address, _, _ := strings.Cut(rest, `"`)
	if address == "" {
		s.t.Fatal("no address")
	}
	return address
}
