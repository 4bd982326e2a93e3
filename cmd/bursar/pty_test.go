package main

import (
	"bytes"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/bursar/bursar/internal/cli/failure"
)

// terminal is a pseudo-terminal with a program in its foreground.
type terminal struct {
	t      *testing.T
	master *os.File
	cmd    *exec.Cmd

	mu     sync.Mutex
	screen bytes.Buffer
	more   chan struct{} // has an element when something new is on the screen
}

// openPty returns both ends of a new pseudo-terminal.
func openPty(t *testing.T) (master, slave *os.File) {
	t.Helper()
	master, err := os.OpenFile("/dev/ptmx", os.O_RDWR|unix.O_NOCTTY, 0)
	if err != nil {
		t.Fatal(err)
	}
	raw, err := master.SyscallConn() // Fd would make reads block for good
	if err != nil {
		t.Fatal(err)
	}
	var number int
	var numberErr, unlockErr error
	if err := raw.Control(func(fd uintptr) {
		unlockErr = unix.IoctlSetPointerInt(int(fd), unix.TIOCSPTLCK, 0)
		number, numberErr = unix.IoctlGetInt(int(fd), unix.TIOCGPTN)
	}); err != nil || numberErr != nil || unlockErr != nil {
		t.Fatal(err, numberErr, unlockErr)
	}
	slave, err = os.OpenFile(filepath.Join("/dev/pts", strconv.Itoa(number)), os.O_RDWR|unix.O_NOCTTY, 0)
	if err != nil {
		t.Fatal(err)
	}
	return master, slave
}

// inTerminal starts a program as a shell does in its terminal.
func inTerminal(t *testing.T, env []string, args ...string) *terminal {
	t.Helper()
	master, slave := openPty(t)
	term := &terminal{t: t, master: master, cmd: exec.Command(args[0], args[1:]...), more: make(chan struct{}, 1)}
	term.cmd.Env = append(os.Environ(), env...)
	term.cmd.Stdin, term.cmd.Stdout, term.cmd.Stderr = slave, slave, slave
	term.cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true, Setctty: true}
	if err := term.cmd.Start(); err != nil {
		t.Fatal(err)
	}
	_ = slave.Close()
	read := make(chan struct{})
	go func() {
		defer close(read)
		chunk := make([]byte, 4096)
		for {
			n, err := master.Read(chunk)
			term.mu.Lock()
			term.screen.Write(chunk[:n])
			term.mu.Unlock()
			select {
			case term.more <- struct{}{}:
			default:
			}
			if err != nil { // EIO when the last program has closed its end
				return
			}
		}
	}()
	t.Cleanup(func() {
		_ = term.cmd.Process.Kill()
		_ = master.Close()
		<-read
	})
	return term
}

func (term *terminal) text() string {
	term.mu.Lock()
	defer term.mu.Unlock()
	return term.screen.String()
}

// await returns when the text is on the screen.
func (term *terminal) await(text string) {
	term.t.Helper()
	deadline := time.After(patience)
	for !strings.Contains(term.text(), text) {
		select {
		case <-term.more:
		case <-deadline:
			term.t.Fatalf("%q did not come; the screen is\n%s", text, term.text())
		}
	}
}

// enter types a text.
func (term *terminal) enter(text string) {
	term.t.Helper()
	if _, err := term.master.WriteString(text); err != nil {
		term.t.Fatal(err)
	}
}

// devServer runs `bursar dev` for the test and returns the environment in which commands find it.
func devServer(t *testing.T) []string {
	t.Helper()
	dir, err := os.MkdirTemp("", "bursar") //nolint:usetesting // the path of a socket has at most 107 bytes
	if err != nil {
		t.Fatal(err)
	}
	socket := filepath.Join(dir, "agent.sock")
	dev := inTerminal(t, nil, bursar(t), "dev", "--listen", "127.0.0.1:0", "--data-dir", dir, "--agent-socket", socket)
	t.Cleanup(func() {
		dev.enter("\x03")
		if err := dev.cmd.Wait(); err != nil {
			t.Errorf("dev: %v\n%s", err, dev.text())
		}
		_ = os.RemoveAll(dir)
	})
	dev.await("bursar explain")
	_, rest, _ := strings.Cut(dev.text(), "BURSAR_ADDR=")
	address, _, _ := strings.Cut(rest, "\r")
	return []string{"BURSAR_AGENT=" + socket, "BURSAR_ADDR=" + address}
}

// bursar is the program under test: TestMain makes this test binary act as it under its name.
func bursar(t *testing.T) string {
	t.Helper()
	path, err := exec.LookPath("bursar")
	if err != nil {
		t.Fatal(err)
	}
	return path
}

// The command reads from the terminal. ^C reaches it once, from the terminal, and not a second
// time from us.
func TestCommandHasTheTerminal(t *testing.T) {
	env := devServer(t)
	term := inTerminal(t, env, bursar(t), "run", "--memory", "64MiB", "--label", "user=alice", "--", "sh", "-c",
		`trap 'echo interrupted' INT; echo ready; read line; echo "read $line"; read line; echo "then $line"; exit 5`)
	term.await("ready")
	term.enter("typed\n")
	term.await("read typed")
	term.enter("\x03")
	term.await("interrupted")
	term.enter("on\n")
	term.await("then ")
	_ = term.cmd.Wait()
	if code := term.cmd.ProcessState.ExitCode(); code != 5 {
		t.Errorf("ended with code %d, want the command's own; the screen is\n%s", code, term.text())
	}
	if n := strings.Count(term.text(), "interrupted"); n != 1 {
		t.Errorf("the command was interrupted %d times by one ^C", n)
	}
}

// ^C ends a request that waits, and removes the line that shows its place.
func TestInterruptEndsAWait(t *testing.T) {
	env := devServer(t)
	for _, args := range [][]string{
		{"quota", "set", "user=alice", "--instances", "1"},
		{"allocate", "--memory", "64MiB", "--label", "user=alice"},
	} {
		command := exec.Command(bursar(t), args...)
		command.Env = append(os.Environ(), env...)
		if out, err := command.CombinedOutput(); err != nil {
			t.Fatalf("%v: %s", err, out)
		}
	}
	term := inTerminal(t, env, bursar(t), "run", "--memory", "64MiB", "--label", "user=alice", "--wait", "1m", "--", "true")
	term.await("waiting: next in line for quota user=alice, which lacks 1 instance;")
	term.enter("\x03")
	_ = term.cmd.Wait()
	if code := term.cmd.ProcessState.ExitCode(); code != failure.ExitSignal+int(syscall.SIGINT) {
		t.Errorf("ended with code %d; the screen is\n%s", code, term.text())
	}
	term.await("\x1b[Kwaited")
}
