package chaos

import (
	"bufio"
	"fmt"
	"io"
	"os"
	"os/exec"
	"runtime"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/bursar/bursar/test/proc"
)

// An engine here is this test binary, started again. It carries out the lines on its standard
// input, one after the other, and answers each when it is done, so that nobody has to guess how
// long anything takes. It ends when its input does.

// engineVariable in the environment makes the test binary an engine: "root" or "child".
const engineVariable = "BURSAR_CHAOS_ENGINE"

// playEngine is the engine's side.
func playEngine(in io.Reader, out io.Writer) {
	if os.Getenv(engineVariable) == "child" {
		memory, err := touch(os.Args[1])
		if err != nil {
			panic(err)
		}
		fmt.Fprintln(out, "done")
		// Nothing is ever written: it ends with the test.
		_, _ = io.Copy(io.Discard, os.NewFile(3, "life"))
		runtime.KeepAlive(memory)
		return
	}
	var held [][]byte
	for lines := bufio.NewScanner(in); lines.Scan(); {
		answer, err := obey(strings.Fields(lines.Text()), &held)
		if err != nil {
			answer = "error " + err.Error()
		}
		_, _ = fmt.Fprintln(out, answer)
	}
	runtime.KeepAlive(held)
}

func obey(words []string, held *[][]byte) (string, error) {
	switch words[0] {
	case "hello":
		return "hello", nil
	case "touch": // MiB of anonymous memory, kept
		memory, err := touch(words[1])
		*held = append(*held, memory)
		return "done", err
	case "write": // FILE, MiB: fills the page cache with a file that is on disk
		size, err := strconv.Atoi(words[2])
		if err != nil {
			return "", err
		}
		return "done", fillCache(words[1], size)
	case "fork": // MiB: a child that touches so much and then does nothing
		return fork(words[1])
	default:
		return "", fmt.Errorf("unknown command %q", words)
	}
}

// touch takes memory and writes to every page of it, a mebibyte at a time: an agent reads what the
// machine has and what the engine uses one after the other, and on a busy machine some time lies
// between.
func touch(mebibytes string) ([]byte, error) {
	size, err := strconv.Atoi(mebibytes)
	if err != nil || size == 0 {
		return nil, err
	}
	memory, err := unix.Mmap(-1, 0, size<<20, unix.PROT_READ|unix.PROT_WRITE, unix.MAP_ANON|unix.MAP_PRIVATE)
	if err != nil {
		return nil, err
	}
	tick := time.NewTicker(10 * time.Millisecond)
	defer tick.Stop()
	for i := 0; i < len(memory); i += os.Getpagesize() {
		if i%(1<<20) == 0 {
			<-tick.C
		}
		memory[i] = 1
	}
	return memory, nil
}

// fork starts a child, and returns its pid when it has touched its memory.
func fork(mebibytes string) (string, error) {
	child := exec.Command(os.Args[0], mebibytes)
	child.Env = append(os.Environ(), engineVariable+"=child")
	child.ExtraFiles = []*os.File{os.NewFile(3, "life")}
	out, err := child.StdoutPipe()
	if err != nil {
		return "", err
	}
	if err := child.Start(); err != nil {
		return "", err
	}
	if _, err := bufio.NewReader(out).ReadString('\n'); err != nil {
		return "", err
	}
	go func() { _ = child.Wait() }() // so that it does not stay as a zombie
	return strconv.Itoa(child.Process.Pid), nil
}

// fillCache writes a file, and reads it back: its pages are in memory then, and clean.
func fillCache(name string, size int) error {
	file, err := os.Create(name)
	if err != nil {
		return err
	}
	defer file.Close()
	block := make([]byte, 1<<20)
	for range size {
		if _, err := file.Write(block); err != nil {
			return err
		}
	}
	if err := file.Sync(); err != nil {
		return err
	}
	if _, err := file.Seek(0, io.SeekStart); err != nil {
		return err
	}
	_, err = io.Copy(io.Discard, file)
	return err
}

// engine is the test's side.
type engine struct {
	t     *testing.T
	cmd   *exec.Cmd
	in    io.WriteCloser
	out   *bufio.Scanner
	ended chan struct{} // closed when it was waited for
}

// startEngine starts an engine in a session of its own. It and all its children are gone at the
// end of the test.
func startEngine(t *testing.T) *engine {
	t.Helper()
	e := &engine{t: t, cmd: exec.Command(os.Args[0]), ended: make(chan struct{})}
	e.cmd.Env = append(proc.Environment(), engineVariable+"=root")
	e.cmd.Stderr = os.Stderr
	e.cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true}
	life, hold, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	e.cmd.ExtraFiles = []*os.File{life}
	if e.in, err = e.cmd.StdinPipe(); err != nil {
		t.Fatal(err)
	}
	// Not StdoutPipe, which Wait would close under the reader.
	out, answers, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	e.cmd.Stdout, e.out = answers, bufio.NewScanner(out)
	if err := e.cmd.Start(); err != nil {
		t.Fatal(err)
	}
	_, _ = life.Close(), answers.Close()
	go func() {
		_ = e.cmd.Wait() // most are killed
		close(e.ended)
	}()
	t.Cleanup(func() {
		_ = hold.Close() // ends the children
		e.kill()
		_ = out.Close()
	})
	e.tell("hello")
	return e
}

func (e *engine) pid() int { return e.cmd.Process.Pid }

// tell has the engine do something, and returns its answer.
func (e *engine) tell(format string, arguments ...any) string {
	e.t.Helper()
	if _, err := fmt.Fprintf(e.in, format+"\n", arguments...); err != nil {
		e.t.Fatal(err)
	}
	if !e.out.Scan() {
		e.t.Fatalf("the engine ended: %v", e.out.Err())
	}
	if problem, bad := strings.CutPrefix(e.out.Text(), "error "); bad {
		e.t.Fatal(problem)
	}
	return e.out.Text()
}

// fork returns the pid of a new child.
func (e *engine) fork() int {
	e.t.Helper()
	return e.forkTouching(0)
}

// forkTouching returns the pid of a new child that has touched some memory.
func (e *engine) forkTouching(mebibytes int) int {
	e.t.Helper()
	return must[int](e.t)(strconv.Atoi(e.tell("fork %d", mebibytes)))
}

// kill ends the engine's root by SIGKILL and waits for it. Again is fine.
func (e *engine) kill() {
	_ = e.cmd.Process.Kill() // it has ended, then
	<-e.ended
}
