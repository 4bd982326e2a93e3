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

// patience is how long anything here may take: the starting of a server, an application's getting
// what it asks for. On a busy machine a server alone may take most of a minute.
const patience = 3 * time.Minute

// starting are the clusters of this process whose servers are being started. That takes all that
// two cores have; more of them at the same time would only all take longer.
var starting = make(chan struct{}, max(1, runtime.NumCPU()/2)) //nolint:gochecknoglobals // it is of the machine

// begin waits until servers may be started, and returns what says that they are up.
func begin(ctx context.Context) (end func(), err error) {
	select {
	case starting <- struct{}{}:
		return func() { <-starting }, nil
	case <-ctx.Done():
		return nil, ctx.Err()
	}
}

// server is one Java process, with its configuration, its log and all that it makes in a folder.
type server struct {
	dir     string
	jars    string
	java    string
	options []string // of Java
	run     []string // the class and its arguments
	logName string   // default: log
	user    string   // default: User

	before  int // bytes of the log that are of the runs before
	process *exec.Cmd
	ended   chan struct{} // closed when process has ended
}

// conf is the folder of its configuration.
func (s *server) conf() string { return filepath.Join(s.dir, "conf") }

// command runs a class with the server's configuration. The kernel ends it when this process ends.
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

// whileRunning returns a context that ends when the process does.
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

// kill ends it at once, as a crash does, and waits for that. One that does not run stays so.
func (s *server) kill() {
	if s.process == nil || s.process.Process == nil {
		return
	}
	_ = s.process.Process.Kill() // it may have ended already
	<-s.ended
}

// stop ends it as an operator does, and waits for that.
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

// said reports whether the server has said something since it was started last.
func (s *server) said(what string) bool {
	text, err := os.ReadFile(s.log())
	return err == nil && strings.Contains(string(text[min(s.before, len(text)):]), what)
}

// tail is the end of what the server said, without the lines of stack traces.
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

// ports gives out ports that nobody listens on, none twice. They are below those that the system
// gives to outgoing connections, so that they stay free while a server that has one is down. The
// zero value is ready.
type ports struct {
	mu   sync.Mutex
	last int
}

// given are those of all clusters of this process: two that start at the same time must not get the
// same ones.
var given ports //nolint:gochecknoglobals // they are the machine's

// nextPort is a port of this process's own.
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
