package systemd

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/bursar/bursar/test/systemd/wire"
)

// commandTime limits a command whose context has no deadline.
const commandTime = 60 * time.Second

// Command is a command for a machine to run, without a shell.
type Command struct {
	Arguments   []string
	User        string // of the machine; default: root
	Environment []string
	Input       string
}

// Result is the result of a command.
type Result struct {
	Output, Errors string
	Code           int // as in a shell
	Took           time.Duration
}

func (r Result) String() string {
	return fmt.Sprintf("exit code %d after %s\n%s%s", r.Code, r.Took.Round(time.Millisecond), r.Output, r.Errors)
}

// Run runs a command. It fails if the command cannot be started, or if ctx ends first, which also
// ends the command. The result has the command's own exit code.
func (m *Machine) Run(ctx context.Context, c Command) (Result, error) {
	if _, bounded := ctx.Deadline(); !bounded {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeout(ctx, commandTime)
		defer cancel()
	}
	answer, err := m.channel.ask(ctx, wire.Request{
		Arguments: c.Arguments, User: c.User, Environment: c.Environment, Input: []byte(c.Input),
	})
	if err == nil && answer.Failure != "" {
		err = errors.New(answer.Failure)
	}
	if err != nil {
		return Result{}, fmt.Errorf("%s: %w", strings.Join(c.Arguments, " "), err)
	}
	return Result{Output: string(answer.Output), Errors: string(answer.Errors), Code: answer.Code, Took: answer.Took}, nil
}

// As runs a command as a user. The test fails only if it could not be run.
func (m *Machine) As(tb testing.TB, user string, arguments ...string) Result {
	tb.Helper()
	result, err := m.Run(tb.Context(), Command{Arguments: arguments, User: user})
	if err != nil {
		tb.Fatal(err)
	}
	return result
}

// Must runs a command as root that must succeed, and returns its trimmed output.
func (m *Machine) Must(tb testing.TB, arguments ...string) string {
	tb.Helper()
	result := m.As(tb, "", arguments...)
	if result.Code != 0 {
		tb.Fatalf("%s: %s", strings.Join(arguments, " "), result)
	}
	return strings.TrimSpace(result.Output)
}

// Shell runs a shell script as root that must succeed, and returns its trimmed output.
func (m *Machine) Shell(tb testing.TB, script string) string {
	tb.Helper()
	return m.Must(tb, "sh", "-euc", script)
}

// Write creates a file and its parent folders.
func (m *Machine) Write(tb testing.TB, path, content string) {
	tb.Helper()
	result, err := m.Run(tb.Context(), Command{
		Arguments: []string{"sh", "-euc", `mkdir -p "$(dirname "$1")"; cat >"$1"`, "sh", path}, Input: content,
	})
	if err != nil || result.Code != 0 {
		tb.Fatalf("%s: %v %s", path, err, result)
	}
}

// Await runs a shell script as root until it succeeds, and returns its trimmed output.
func (m *Machine) Await(tb testing.TB, within time.Duration, script string) string {
	tb.Helper()
	ctx, cancel := context.WithTimeout(tb.Context(), within)
	defer cancel()
	var last Result
	for {
		result, err := m.Run(ctx, Command{Arguments: []string{"sh", "-euc", script}})
		switch {
		case err == nil && result.Code == 0:
			return strings.TrimSpace(result.Output)
		case err == nil:
			last = result
		case ctx.Err() == nil && !errors.Is(err, errReset):
			tb.Fatal(err)
		}
		select {
		case <-ctx.Done():
			tb.Fatalf("not within %s: %s\nlast: %s", within, script, last)
		case <-time.After(200 * time.Millisecond):
		}
	}
}
