//go:build linux

package ha

import (
	"bytes"
	"context"
	"errors"
	"os"
	"os/exec"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/bursar/bursar/test/netlab"
)

// process is a bursar that serves in a node. It can be started again after it ended.
type process struct {
	t    *testing.T
	name string
	node *netlab.Node
	args []string
	// program is another bursar than the one under test; empty: that.
	program string
	output  *output

	cmd   *exec.Cmd
	ended chan struct{} // closed when cmd was waited for
}

// output gathers what a process prints.
type output struct {
	mu   sync.Mutex
	text bytes.Buffer // guarded by mu
}

func (o *output) Write(p []byte) (int, error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.text.Write(p)
}

func (o *output) String() string {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.text.String()
}

// newProcess names a process that is started by start. At the end of the test it is killed, and judged by what it printed.
func newProcess(t *testing.T, name string, node *netlab.Node, args ...string) *process {
	t.Helper()
	p := &process{t: t, name: name, node: node, args: args, output: &output{}}
	t.Cleanup(func() {
		p.kill()
		p.checkOutput()
	})
	return p
}

func (p *process) start() {
	p.t.Helper()
	program := executable
	if p.program != "" {
		program = p.program
	}
	p.cmd = p.node.Command(context.Background(), append([]string{program}, p.args...)...)
	p.cmd.Env = environment()
	p.cmd.Stdout, p.cmd.Stderr = p.output, p.output
	if err := p.cmd.Start(); err != nil {
		p.t.Fatalf("%s: %v", p.name, err)
	}
	ended, cmd := make(chan struct{}), p.cmd
	p.ended = ended
	go func() {
		defer close(ended)
		_ = cmd.Wait()
	}()
}

// checkOutput fails the test for what no bursar must ever print.
func (p *process) checkOutput() {
	p.t.Helper()
	text := p.output.String()
	for _, fault := range []string{"DATA RACE", "panic: ", "fatal error: ", "the ledger panicked", "the books are wrong"} {
		if strings.Contains(text, fault) {
			p.t.Errorf("%s: %s", p.name, fault)
		}
	}
	if p.t.Failed() {
		p.t.Logf("%s printed:\n%s", p.name, p.output.tail())
	}
}

// tail is the end of it.
func (o *output) tail() string {
	const most = 6 << 10
	text := o.String()
	if len(text) > most {
		return "…" + text[len(text)-most:]
	}
	return text
}

func (p *process) signal(s syscall.Signal) {
	p.t.Helper()
	if err := p.cmd.Process.Signal(s); err != nil {
		p.t.Fatalf("signal %s to %s: %v", s, p.name, err)
	}
}

// kill ends it by SIGKILL and waits until it is gone. Again is fine.
func (p *process) kill() {
	if p.cmd == nil {
		return
	}
	if err := p.cmd.Process.Kill(); err != nil && !errors.Is(err, os.ErrProcessDone) {
		p.t.Errorf("kill %s: %v", p.name, err)
	}
	<-p.ended
}

// stop ends it as an operator does.
func (p *process) stop() {
	p.t.Helper()
	p.signal(syscall.SIGTERM)
	timer := time.NewTimer(patience)
	defer timer.Stop()
	select {
	case <-p.ended:
	case <-timer.C:
		p.t.Fatalf("%s has not ended within %v of SIGTERM:\n%s", p.name, patience, p.output.tail())
	}
}

// running reports whether it has not ended by itself.
func (p *process) running() bool {
	select {
	case <-p.ended:
		return false
	default:
		return true
	}
}
