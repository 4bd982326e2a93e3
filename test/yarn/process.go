package yarn

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"time"
)

// patience is the time limit for each step here: the start of a server, or an application's wait
// for its containers. On a busy machine a server alone may take most of a minute.
const patience = 3 * time.Minute

// starting limits the clusters of this process whose servers are starting. A start uses two cores
// fully; more at the same time would only make all of them slower.
var starting = make(chan struct{}, max(1, runtime.NumCPU()/2)) //nolint:gochecknoglobals // it is of the machine

// begin waits until servers may be started. Call end when they are up.
func begin(ctx context.Context) (end func(), err error) {
	select {
	case starting <- struct{}{}:
		return func() { <-starting }, nil
	case <-ctx.Done():
		return nil, ctx.Err()
	}
}

// server is one Java process, with its configuration, log and data in a folder.
type server struct {
	dir     string
	jars    string
	java    string
	options []string // of Java
	run     []string // the class and its arguments
	logName string   // default: log
	user    string   // default: User

	before  int // bytes of the log from earlier runs
	process *exec.Cmd
	ended   chan struct{} // closed when process has ended
}

// conf returns the folder of its configuration.
func (s *server) conf() string { return filepath.Join(s.dir, "conf") }

// command runs a class with the server's configuration. The kernel kills it when this process ends.
func (s *server) command(class string, arguments ...string) *exec.Cmd {
	line := []string{
		// Small and quick to start: nothing here runs for long.
		"-Xmx256m", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1", "-Xshare:auto",
		"--add-opens=java.base/java.lang=ALL-UNNAMED", // Guice and JAXB define classes
		"-Djava.net.preferIPv4Stack=true", "-Duser.home=" + s.dir, "-Dyarn.log.dir=" + s.dir, "-Dhadoop.log.dir=" + s.dir,
		"-cp", s.conf() + ":" + s.jars + "/*",
	}
	line = append(append(line, s.options...), class)
	command := exec.Command(s.java, append(line, arguments...)...) //nolint:gosec,noctx // a test's own server, which ends with kill
	command.Dir = s.dir
	home := s.java
	if place, err := filepath.EvalSymlinks(s.java); err == nil {
		home = filepath.Dir(filepath.Dir(place))
	}
	command.Env = []string{"PATH=" + os.Getenv("PATH"), "LC_ALL=C.UTF-8", "TZ=UTC", "HOME=" + s.dir, "HADOOP_USER_NAME=" + cmp.Or(s.user, User), "JAVA_HOME=" + home}
	command.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	return command
}

func (s *server) start() error {
	output, err := os.OpenFile(s.log(), os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	if err != nil {
		return err
	}
	defer output.Close() // the child has its own
	info, err := output.Stat()
	if err != nil {
		return err
	}
	s.before = int(info.Size())
	s.process = s.command(s.run[0], s.run[1:]...)
	s.process.Stdout, s.process.Stderr = output, output
	if err := s.process.Start(); err != nil {
		return fmt.Errorf("start %s: %w", s.run[0], err)
	}
	ended, process := make(chan struct{}), s.process
	s.ended = ended
	go func() {
		defer close(ended)
		_ = process.Wait()
	}()
	return nil
}

// whileRunning returns a context that ends with the process.
func (s *server) whileRunning(ctx context.Context) (context.Context, context.CancelFunc) {
	ctx, cancel := context.WithCancelCause(ctx)
	done := make(chan struct{})
	go func() {
		defer close(done)
		select {
		case <-s.ended:
			cancel(fmt.Errorf("%s has ended", filepath.Base(s.dir)))
		case <-ctx.Done():
		}
	}()
	return ctx, func() { cancel(nil); <-done }
}

// kill ends the process like a crash, and waits for its end. It may be called for an ended one.
func (s *server) kill() {
	if s.process == nil || s.process.Process == nil {
		return
	}
	_ = s.process.Process.Kill() // it may have ended already
	<-s.ended
}

// stop ends the process like an operator, and waits for its end.
func (s *server) stop() error {
	if err := s.process.Process.Signal(syscall.SIGTERM); err != nil {
		return fmt.Errorf("stop %s: %w", s.dir, err)
	}
	late := time.NewTimer(patience)
	defer late.Stop()
	select {
	case <-s.ended:
		return nil
	case <-late.C:
		s.kill()
		return fmt.Errorf("stop %s: it took longer than %v", s.dir, patience)
	}
}

func (s *server) log() string { return filepath.Join(s.dir, cmp.Or(s.logName, "log")) }

// said reports whether the log since the last start contains a text.
func (s *server) said(what string) bool {
	text, err := os.ReadFile(s.log())
	return err == nil && strings.Contains(string(text[min(s.before, len(text)):]), what)
}

// tail returns the end of the log, without the lines of stack traces.
func (s *server) tail() string {
	text, err := os.ReadFile(s.log())
	if err != nil {
		return err.Error()
	}
	var lines []string
	for line := range strings.Lines(string(text)) {
		if !strings.HasPrefix(line, "\tat ") {
			// A classpath is long.
			lines = append(lines, strings.TrimSuffix(line[:min(len(line), 400)], "\n")+"\n")
		}
	}
	return strings.Join(lines[max(0, len(lines)-40):], "")
}

// ports hands out free ports, each once. They are below the system's range for outgoing
// connections, so they stay free while their server is down. The zero value is ready.
type ports struct {
	mu   sync.Mutex
	last int
}

// given is shared by all clusters of this process, so that two that start at the same time get
// different ports.
var given ports //nolint:gochecknoglobals // they are the machine's

// nextPort returns a new port.
func nextPort() (int, error) { return given.next() }

func (p *ports) next() (int, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	const from, count = 10000, 22000
	if p.last == 0 {
		p.last = from + rand.IntN(count)
	}
	for range count {
		p.last = from + (p.last+1-from)%count
		listener, err := net.Listen("tcp", ":"+strconv.Itoa(p.last)) //nolint:noctx // to see whether anybody has it, on any address
		if err == nil {
			return p.last, listener.Close()
		}
	}
	return 0, errors.New("no free port")
}
