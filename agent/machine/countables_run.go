package machine

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"strconv"
	"time"

	"github.com/bursar/bursar/internal/command"
	"github.com/bursar/bursar/internal/spelling"
	"github.com/bursar/bursar/resource"
)

const (
	// maxCountOutput bounds the standard output of a command, in bytes.
	maxCountOutput = 64 << 10
	// maxProblem is how much of an error's text is reported, in bytes.
	maxProblem = 256
)

// countBy counts with the command of a countable. The error is as that of commandOutput.
func countBy(ctx context.Context, of CountableSettings) (int64, error) {
	printed, err := commandOutput(ctx, commandArgs(of.command), of.timeout)
	if err != nil {
		return 0, err
	}
	return parseCount(printed, of.lines)
}

// commandOutput runs a command, of a countable or of the host's health, to its end or its timeout
// and returns its standard output, also if it fails. Nothing that it has started outlives that. The
// error is a *command.UndeadError if the kernel does not let go of it.
func commandOutput(ctx context.Context, args []string, timeout time.Duration) ([]byte, error) {
	ctx, cancel := context.WithTimeoutCause(ctx, timeout, fmt.Errorf("killed after %s", timeout))
	defer cancel()
	// It is the configuration's to say, and may do all that the agent may.
	c := command.Command{
		Args: args, Dir: "/", KeepsRights: true, MaxOutput: maxCountOutput,
		Env: []string{"PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin", "LC_ALL=C"},
	}
	printed, err := c.Run(ctx)
	if _, ended := errors.AsType[*command.ExitError](err); ended && printed.Errors != "" {
		err = fmt.Errorf("%w: %s", err, spelling.Cut(printed.Errors, maxProblem))
	}
	return printed.Output, err //nolint:wrapcheck // it says all
}

// parseCount reads a number, or counts the lines that are not empty.
func parseCount(printed []byte, lines bool) (int64, error) {
	if lines {
		var count int64
		for line := range bytes.Lines(printed) {
			if len(bytes.TrimSpace(line)) > 0 {
				count++
			}
		}
		return count, nil
	}
	text := string(bytes.TrimSpace(printed))
	count, err := strconv.ParseInt(text, 10, 64)
	if err != nil || count < 0 || count > resource.MaxQuantity || text[0] == '+' {
		return 0, fmt.Errorf("printed %q: want a whole number from 0 to %d", spelling.Cut(text, 64), int64(resource.MaxQuantity))
	}
	return count, nil
}
