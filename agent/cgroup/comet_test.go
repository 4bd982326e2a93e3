package cgroup

import (
	"bufio"
	"fmt"
	"os"
	"os/exec"
	"os/signal"
	"runtime"
	"strings"
	"syscall"
	"testing"
	"time"
	"unsafe"
)

// The roles of this binary in a test of an engine that cannot be caught: its processes live for
// 200 µs each, and the keeper waits for the first.
const (
	asKeeper = "keeper"
	asComet  = "comet"
)

// beKeeper starts the engine, and says how it ended.
func beKeeper() int {
	signal.Ignore(syscall.SIGTERM)
	if _, err := bufio.NewReader(os.Stdin).ReadString('\n'); err != nil {
		return 1
	}
	engine := exec.Command(os.Args[0])
	engine.Env = append(os.Environ(), asEngine+"="+asComet)
	engine.SysProcAttr = &syscall.SysProcAttr{Setsid: true}
	out, err := engine.StdoutPipe()
	if err != nil || engine.Start() != nil {
		return 1
	}
	if _, err := bufio.NewReader(out).ReadString('\n'); err != nil {
		return 1
	}
	fmt.Fprintln(os.Stdout, "pid", engine.Process.Pid)
	_ = engine.Wait()
	fmt.Fprintln(os.Stdout, "ended", engine.ProcessState)
	return 0
}

// beComet starts two chains of processes that fork and exit, and waits.
func beComet() int {
	signal.Ignore(syscall.SIGTERM)
	runtime.LockOSThread()
	for range 2 {
		if fork() == 0 {
			chain()
		}
	}
	fmt.Fprintln(os.Stdout, "ready")
	_ = os.Stdout.Close()
	<-time.NewTimer(time.Minute).C
	return 0
}

// fork starts a copy of this process that has this thread alone: it may make system calls, and
// nothing else.
//
//go:norace
func fork() uintptr {
	pid, _, _ := syscall.RawSyscall6(syscall.SYS_CLONE, uintptr(syscall.SIGCHLD), 0, 0, 0, 0, 0)
	return pid
}

//go:norace
func call(number, argument uintptr) {
	if _, _, failed := syscall.RawSyscall(number, argument, 0, 0); failed != 0 {
		return // it goes on without
	}
}

// chain forks and exits, every 200 µs and for a minute.
//
//go:norace
func chain() {
	pause := syscall.Timespec{Nsec: 200_000}
	call(syscall.SYS_SETSID, 0)
	for range 300_000 {
		if fork() > 0 {
			break
		}
		if _, _, failed := syscall.RawSyscall(syscall.SYS_NANOSLEEP, uintptr(unsafe.Pointer(&pause)), 0, 0); failed != 0 {
			break
		}
	}
	for {
		call(syscall.SYS_EXIT_GROUP, 0)
	}
}

// comet is a keeper with an engine that cannot be caught.
type comet struct {
	*engine

	root int32
}

// startComet starts the keeper, lets enter move it to a cgroup, and starts its engine.
func startComet(t *testing.T, enter func(keeper int32)) comet {
	t.Helper()
	c := comet{engine: startAs(t, asKeeper)}
	enter(c.pid())
	c.tell("go")
	pid, alive := c.answer()
	if !alive {
		t.Fatal("the engine was not started")
	}
	c.root = int32(pid)
	return c
}

// last is the last that the keeper says: how its engine has ended.
func (c comet) last() string {
	var last string
	for c.out.Scan() {
		last = c.out.Text()
	}
	return strings.TrimSpace(last)
}
