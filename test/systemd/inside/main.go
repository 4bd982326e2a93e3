// Command inside runs in a machine of test/systemd and executes the test's commands, as root or as
// a user of the machine. With arguments it is a tool of the tests instead: see tool.
package main

import (
	"bufio"
	"crypto/rand"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"os/user"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"time"

	"github.com/bursar/bursar/test/systemd/wire"
)

func main() {
	var err error
	if len(os.Args) > 1 {
		err = tool(os.Args[1], os.Args[2:])
	} else {
		err = serve()
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

// dial opens the stream to the test: a socket in a container, a port in a virtual machine.
func dial() (io.ReadWriteCloser, error) {
	const socket, port = "/opt/test/channel", "/dev/virtio-ports/bursar"
	for range 600 {
		if connection, err := net.Dial("unix", socket); err == nil { //nolint:noctx // it answers at once or is not there
			return connection, nil
		}
		if file, err := os.OpenFile(port, os.O_RDWR, 0); err == nil {
			return file, nil
		}
		time.Sleep(50 * time.Millisecond) //nolint:forbidigo // udev makes the port some time during the boot
	}
	return nil, fmt.Errorf("neither %s nor %s is there", socket, port)
}

type server struct {
	session string

	mu      sync.Mutex
	out     *json.Encoder // guarded by mu
	running map[uint64]*os.Process
}

// serve ends with the stream. systemd then starts the program again.
func serve() error {
	boot, err := os.ReadFile("/proc/sys/kernel/random/boot_id")
	if err != nil {
		return err
	}
	stream, err := dial()
	if err != nil {
		return err
	}
	defer stream.Close()
	s := &server{session: rand.Text(), out: json.NewEncoder(stream), running: map[uint64]*os.Process{}}
	// This newline ends an incomplete line of an earlier program.
	if _, err := stream.Write([]byte("\n")); err != nil {
		return err
	}
	s.say(wire.Line{Hello: &wire.Hello{Session: s.session, Boot: strings.TrimSpace(string(boot))}})

	lines := bufio.NewReader(stream)
	for {
		line, err := lines.ReadBytes('\n')
		if err != nil {
			return fmt.Errorf("the test has gone: %w", err)
		}
		var request wire.Request
		if json.Unmarshal(line, &request) != nil || request.Session != s.session {
			continue // the rest of an earlier session
		}
		if request.Cancel {
			s.cancel(request.ID)
			continue
		}
		go func() {
			answer := s.run(request)
			answer.ID = request.ID
			s.say(wire.Line{Answer: &answer})
		}()
	}
}

func (s *server) say(line wire.Line) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if err := s.out.Encode(line); err != nil {
		fmt.Fprintln(os.Stderr, err)
	}
}

func (s *server) cancel(id uint64) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if process := s.running[id]; process != nil {
		_ = syscall.Kill(-process.Pid, syscall.SIGKILL) // it leads a session
	}
}

// run runs a command. Its output goes to files, so that the processes that it leaves behind may
// keep them open.
func (s *server) run(request wire.Request) (answer wire.Answer) {
	start := time.Now()
	defer func() { answer.Took = time.Since(start) }()
	command := exec.Command(request.Arguments[0], request.Arguments[1:]...) //nolint:gosec,noctx // that is what it is for
	command.Env, command.Dir = request.Environment, "/"
	command.SysProcAttr = &syscall.SysProcAttr{Setsid: true}
	if err := become(command, request.User); err != nil {
		return wire.Answer{Failure: err.Error()}
	}
	var files [3]*os.File
	for i := range files {
		file, err := os.CreateTemp("/run", "inside-")
		if err != nil {
			return wire.Answer{Failure: err.Error()}
		}
		defer file.Close()
		if err := os.Remove(file.Name()); err != nil {
			return wire.Answer{Failure: err.Error()}
		}
		files[i] = file
	}
	if _, err := files[0].WriteAt(request.Input, 0); err != nil {
		return wire.Answer{Failure: err.Error()}
	}
	command.Stdin, command.Stdout, command.Stderr = files[0], files[1], files[2]
	if err := s.start(request.ID, command); err != nil {
		return wire.Answer{Failure: err.Error()}
	}
	err := command.Wait()
	s.mu.Lock()
	delete(s.running, request.ID)
	s.mu.Unlock()
	if exit := (*exec.ExitError)(nil); err != nil && !errors.As(err, &exit) {
		return wire.Answer{Failure: err.Error()}
	}
	answer.Code = command.ProcessState.ExitCode()
	if status, ok := command.ProcessState.Sys().(syscall.WaitStatus); ok && status.Signaled() {
		answer.Code = 128 + int(status.Signal())
	}
	for i, to := range []*[]byte{1: &answer.Output, 2: &answer.Errors} {
		if to == nil {
			continue
		}
		size, err := files[i].Seek(0, io.SeekEnd)
		if err == nil {
			*to, err = io.ReadAll(io.NewSectionReader(files[i], 0, size))
		}
		if err != nil {
			answer.Failure = err.Error()
		}
	}
	return answer
}

func (s *server) start(id uint64, command *exec.Cmd) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if err := command.Start(); err != nil {
		return err
	}
	s.running[id] = command.Process
	return nil
}

// become makes a command run as a user, with the environment of a login.
func become(command *exec.Cmd, name string) error {
	if name == "" {
		name = "root"
	}
	account, err := user.Lookup(name)
	if err != nil {
		return err
	}
	groups, err := account.GroupIds()
	if err != nil {
		return err
	}
	uid, err := strconv.ParseUint(account.Uid, 10, 32)
	if err != nil {
		return err
	}
	gid, err := strconv.ParseUint(account.Gid, 10, 32)
	if err != nil {
		return err
	}
	credential := &syscall.Credential{Uid: uint32(uid), Gid: uint32(gid)}
	for _, group := range groups {
		number, err := strconv.ParseUint(group, 10, 32)
		if err != nil {
			return err
		}
		credential.Groups = append(credential.Groups, uint32(number))
	}
	command.SysProcAttr.Credential = credential
	command.Env = append([]string{
		"PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin", "LANG=C.UTF-8", "TERM=dumb", "PAGER=cat", "SYSTEMD_COLORS=0",
		"DEBIAN_FRONTEND=noninteractive", "HOME=" + account.HomeDir, "USER=" + name, "LOGNAME=" + name,
	}, command.Env...)
	return nil
}
