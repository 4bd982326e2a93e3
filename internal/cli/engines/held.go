package engines

import (
	"context"
	"os"
	"os/exec"

	"github.com/bursar/bursar/internal/hold"
)

// heldCommand is a command that begins only once its process was confirmed, so that it finds itself
// in its cgroup from the start.
type heldCommand struct{ gate *hold.Gate }

// holdCommand makes a command that is not started yet wait. If this program cannot be started in
// its place, such as without a /proc, the command is left as it is.
func holdCommand(cmd *exec.Cmd) heldCommand {
	if _, err := os.Stat(hold.Self); err != nil || cmd.Err != nil {
		return heldCommand{}
	}
	gate, err := hold.New(cmd.Path)
	if err != nil {
		return heldCommand{}
	}
	cmd.Env = gate.Environment(cmd.Environ(), 3+len(cmd.ExtraFiles))
	cmd.ExtraFiles = append(cmd.ExtraFiles, gate.Files()...)
	cmd.Path = hold.Self
	return heldCommand{gate}
}

// started is to be called once the process was started, or could not be.
func (h heldCommand) started() {
	if h.gate != nil {
		h.gate.Started()
	}
}

// begin lets the command begin: see hold.Gate.
func (h heldCommand) begin(ctx context.Context) error {
	if h.gate == nil {
		return nil
	}
	return h.gate.Release(ctx) //nolint:wrapcheck // as of a command that was not held
}

func (h heldCommand) abandon() {
	if h.gate != nil {
		h.gate.Abandon()
	}
}
