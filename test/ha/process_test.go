//go:build linux

package ha

import (
	"context"
	"os/exec"
	"testing"

	"github.com/bursar/bursar/test/netlab"
	"github.com/bursar/bursar/test/proc"
)

// process is a bursar that serves in a node. It can be started again after it ended.
type process struct {
	*proc.Process

	node *netlab.Node
	// program is another bursar than the one under test; empty: that.
	program string
}

// newProcess names a process that Start starts. At the end of the test it is killed, and its
// output is checked.
func newProcess(t *testing.T, name string, node *netlab.Node, args ...string) *process {
	t.Helper()
	p := &process{node: node}
	p.Process = proc.New(t, name, func() *exec.Cmd {
		program := executable
		if p.program != "" {
			program = p.program
		}
		cmd := p.node.Command(context.Background(), append([]string{program}, args...)...)
		cmd.Env = proc.Environment()
		return cmd
	})
	return p
}
