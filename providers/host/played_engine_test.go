package host

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"os/signal"
	"runtime"
	"strconv"
	"strings"
	"testing"

	"golang.org/x/sys/unix"
)

// Tests with real processes start this test binary again as an engine. It executes commands from
// its standard input one by one, and answers when each is done. So no test has to guess how long
// anything takes.

// engineVariable in the environment makes the test binary an engine.
const engineVariable = "BURSAR_TEST_ENGINE"

// The values of the variable.
const (
	obedient = "obedient"
	// leaderless: the first thread ends, and another one does the work.
	leaderless = "leaderless"
	// idle: a child of an engine that does nothing until its descriptor 3 is closed.
	idle = "idle"
	// departing: a child that starts an idle one in a new session, and ends.
	departing = "departing"
	// burning: a child that uses the number of ticks of CPU time in its argument.
	burning = "burning"
)

func TestMain(m *testing.M) {
	switch os.Getenv(engineVariable) {
	case obedient:
		obey(os.Stdin, os.Stdout)
	case leaderless:
		go obeyWithoutLeader()
		runtime.LockOSThread()
		endThisThread()
	case idle:
		_, _ = io.Copy(io.Discard, os.NewFile(3, "life"))
	case departing:
		if err := depart(); err != nil {
			panic(err)
		}
	case burning:
		if err := burn(os.Args[1]); err != nil {
			panic(err)
		}
	default:
		os.Exit(m.Run())
	}
}

// init keeps the first goroutine on the first thread, so that it can end that thread.
func init() { //nolint:gochecknoinits // before any goroutine has moved, and only where the test plays an engine
	if os.Getenv(engineVariable) == leaderless {
		runtime.LockOSThread()
	}
}

func endThisThread() {
	if _, _, problem := unix.Syscall(unix.SYS_EXIT, 0, 0, 0); problem != 0 {
		panic(problem)
	}
}

func obeyWithoutLeader() {
	self := strconv.Itoa(os.Getpid())
	for {
		data, err := os.ReadFile("/proc/self/task/" + self + "/stat")
		if err != nil {
			os.Exit(3)
		}
		if got, err := parseStat(data); err == nil && got.state == 'Z' {
			obey(os.Stdin, os.Stdout)
			os.Exit(0)
		}
		runtime.Gosched()
	}
}

// obey executes the commands in the lines of in, and answers each.
func obey(in io.Reader, out io.Writer) {
	var held [][]byte
	children := map[int]*exec.Cmd{}
	lines := bufio.NewScanner(in)
	for lines.Scan() {
		answer, err := obeyOne(strings.Fields(lines.Text()), &held, children)
		if err != nil {
			answer = "error " + err.Error()
		}
		_, _ = fmt.Fprintln(out, answer)
	}
	runtime.KeepAlive(held)
}

func obeyOne(words []string, held *[][]byte, children map[int]*exec.Cmd) (string, error) {
	switch words[0] {
	case "hello":
		return "hello", nil
	case "touch": // MiB of anonymous memory
		size, err := strconv.Atoi(words[1])
		if err != nil {
			return "", err
		}
		memory, err := unix.Mmap(-1, 0, size<<20, unix.PROT_READ|unix.PROT_WRITE, unix.MAP_ANON|unix.MAP_PRIVATE)
		if err != nil {
			return "", err
		}
		for i := 0; i < len(memory); i += os.Getpagesize() {
			memory[i] = 1
		}
		*held = append(*held, memory)
	case "free-lazily": // gives the last touched memory back with MADV_FREE
		return "done", unix.Madvise((*held)[len(*held)-1], unix.MADV_FREE)
	case "touch-again": // writes to it again
		for i := 0; i < len((*held)[len(*held)-1]); i += os.Getpagesize() {
			(*held)[len(*held)-1][i] = 2
		}
	case "untouch": // gives the last touched memory back at once
		last := len(*held) - 1
		err := unix.Munmap((*held)[last])
		*held = (*held)[:last]
		return "done", err
	case "cache": // a file: reads it all
		file, err := os.Open(words[1])
		if err != nil {
			return "", err
		}
		defer func() { _ = file.Close() }()
		if _, err := io.Copy(io.Discard, file); err != nil {
			return "", err
		}
	case "write": // a file, MiB: writes it
		size, err := strconv.Atoi(words[2])
		if err != nil {
			return "", err
		}
		return "done", writeFile(words[1], size)
	case "map": // a file: maps it and reads each page
		return "done", mapFile(words[1], held)
	case "burn": // ticks of CPU time: uses them
		return "done", burn(words[1])
	case "burn-child": // ticks of CPU time: has a child use them, and waits for it
		child := exec.Command(os.Args[0], words[1])
		child.Env = append(os.Environ(), engineVariable+"="+burning)
		return "done", child.Run()
	case "burn-unreaped": // ticks of CPU time: has a child use them without reaping it
		return "done", burnUnreaped(words[1])
	case "memfd": // MiB: writes a file that is only in memory and not mapped
		size, err := strconv.Atoi(words[1])
		if err != nil {
			return "", err
		}
		fd, err := unix.MemfdCreate("held", unix.MFD_CLOEXEC)
		if err != nil {
			return "", err
		}
		return "done", unix.Fallocate(fd, 0, 0, int64(size)<<20)
	case "daemon": // starts a process and orphans it
		child := exec.Command(os.Args[0])
		child.Env = append(os.Environ(), engineVariable+"="+departing)
		child.ExtraFiles = []*os.File{os.NewFile(3, "life")}
		return "done", child.Run()
	case "fork", "fork-session":
		child := exec.Command(os.Args[0])
		child.Env = append(os.Environ(), engineVariable+"="+idle)
		child.ExtraFiles = []*os.File{os.NewFile(3, "life")}
		child.SysProcAttr = &unix.SysProcAttr{Setsid: words[0] == "fork-session"}
		if err := child.Start(); err != nil {
			return "", err
		}
		children[child.Process.Pid] = child
		return strconv.Itoa(child.Process.Pid), nil
	case "vfork": // a program whose start blocks while a lease on its file exists
		go func() { _ = exec.Command(words[1]).Run() }()
	case "kill", "kill-unreaped":
		pid, err := strconv.Atoi(words[1])
		if err != nil {
			return "", err
		}
		if err := unix.Kill(pid, unix.SIGKILL); err != nil {
			return "", err
		}
		if words[0] == "kill" {
			_ = children[pid].Wait() // It reports that the child was killed.
			return "done", nil
		}
		return "done", retried(func() error { return unix.Waitid(unix.P_PID, pid, nil, unix.WEXITED|unix.WNOWAIT, nil) })
	default:
		return "", fmt.Errorf("unknown command %q", words)
	}
	return "done", nil
}

func depart() error {
	child := exec.Command(os.Args[0])
	child.Env = append(os.Environ(), engineVariable+"="+idle)
	child.ExtraFiles = []*os.File{os.NewFile(3, "life")}
	child.SysProcAttr = &unix.SysProcAttr{Setsid: true}
	return child.Start()
}

// burnUnreaped has a child use that many ticks. From then on this process tells the kernel to reap
// its children automatically.
func burnUnreaped(ticks string) error {
	signal.Ignore(unix.SIGCHLD)
	life, held, err := os.Pipe()
	if err != nil {
		return err
	}
	defer func() { _ = life.Close() }()
	child := exec.Command(os.Args[0], ticks)
	child.Env = append(os.Environ(), engineVariable+"="+burning)
	child.ExtraFiles = []*os.File{held}
	if err := child.Start(); err != nil {
		return err
	}
	_ = held.Close()
	if _, err = life.Read(make([]byte, 1)); !errors.Is(err, io.EOF) {
		return fmt.Errorf("waiting for the child's end: %w", err)
	}
	return nil
}

func writeFile(name string, size int) error {
	file, err := os.Create(name)
	if err != nil {
		return err
	}
	block := make([]byte, 1<<20)
	for range size {
		if _, err := file.Write(block); err != nil {
			_ = file.Close()
			return err
		}
	}
	if err := file.Sync(); err != nil {
		_ = file.Close()
		return err
	}
	return file.Close()
}

func mapFile(name string, held *[][]byte) error {
	file, err := os.Open(name)
	if err != nil {
		return err
	}
	defer func() { _ = file.Close() }()
	info, err := file.Stat()
	if err != nil {
		return err
	}
	memory, err := unix.Mmap(int(file.Fd()), 0, int(info.Size()), unix.PROT_READ, unix.MAP_SHARED|unix.MAP_POPULATE)
	if err != nil {
		return err
	}
	*held = append(*held, memory)
	return nil
}

// burn uses that many ticks of CPU time.
func burn(ticks string) error {
	more, err := strconv.ParseUint(ticks, 10, 64)
	if err != nil {
		return err
	}
	for end := uint64(0); ; {
		data, err := os.ReadFile("/proc/self/stat")
		if err != nil {
			return err
		}
		got, err := parseStat(data)
		if err != nil {
			return err
		}
		if end == 0 {
			end = got.own + more
		}
		if got.own >= end {
			return nil
		}
	}
}

// realEngine is a started engine.
type realEngine struct {
	*testing.T
	command *exec.Cmd
	in      io.WriteCloser
	out     *bufio.Scanner
}

// startEngine starts this binary as an engine, with the given attributes for process groups and
// sessions. At the end of the test it and all its children are gone.
func startEngine(t *testing.T, variant string, attributes *unix.SysProcAttr) *realEngine {
	t.Helper()
	e := &realEngine{T: t, command: exec.Command(os.Args[0])}
	e.command.Env = append(os.Environ(), engineVariable+"="+variant)
	e.command.SysProcAttr = attributes
	e.command.Stderr = os.Stderr
	life, hold, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	e.command.ExtraFiles = []*os.File{life}
	if e.in, err = e.command.StdinPipe(); err != nil {
		t.Fatal(err)
	}
	out, err := e.command.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	e.out = bufio.NewScanner(out)
	if err := e.command.Start(); err != nil {
		t.Fatal(err)
	}
	_ = life.Close()
	t.Cleanup(func() {
		_ = hold.Close() // ends the idle children
		e.kill()
	})
	e.do("hello")
	return e
}

// kill ends the engine's root with SIGKILL and reaps it. It may be called again.
func (e *realEngine) kill() {
	_ = e.command.Process.Kill()
	_ = e.command.Wait()
}

// do sends the engine a command, and returns its answer.
func (e *realEngine) do(format string, arguments ...any) string {
	e.Helper()
	if _, err := fmt.Fprintf(e.in, format+"\n", arguments...); err != nil {
		e.Fatal(err)
	}
	if !e.out.Scan() {
		e.Fatalf("the engine ended: %v", e.out.Err())
	}
	if problem, bad := strings.CutPrefix(e.out.Text(), "error "); bad {
		e.Fatal(problem)
	}
	return e.out.Text()
}

// identity returns the identity of the engine's root.
func (e *realEngine) identity(meter *Meter) Identity {
	e.Helper()
	identity, err := meter.Identify(int32(e.command.Process.Pid))
	if err != nil {
		e.Fatal(err)
	}
	return identity
}
