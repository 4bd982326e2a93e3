package engines

import (
	"context"
	"fmt"
	"sync"
	"time"

	"github.com/spf13/cobra"

	"github.com/bursar/bursar/client"
	"github.com/bursar/bursar/internal/cli/cmdline"
	"github.com/bursar/bursar/internal/cli/failure"
	"github.com/bursar/bursar/internal/cli/lookup"
	"github.com/bursar/bursar/internal/cli/render"
	"github.com/bursar/bursar/internal/cli/servers"
	bursarv1 "github.com/bursar/bursar/proto/bursar/v1"
)

// The events that wait waits for.
const (
	forEnd   = "end"
	forReady = "ready"
)

const waitText = `Wait waits until engines have ended, and ends with the exit code of the engine:
of several with the first one that is not 0, in the order of the ids. An engine
that a signal ended has 128 and the signal's number. One that never began, or
whose host was lost, has 1. It prints a line for each that ends.

With --for ready it waits until they are ready, and ends with 0. An engine that
says nothing about its readiness is ready as soon as it runs. If one has ended
or failed before it was ready, wait ends with its code, or 1 if that is 0.

If --timeout is over first, wait ends with 124. The engines go on, also if wait
is interrupted.`

// waitFlags say for which event the command waits, and how long.
type waitFlags struct {
	what    string
	timeout time.Duration
}

func waitCommand(c *servers.Connections) *cobra.Command {
	cmd := &cobra.Command{
		Use:   "wait ID…",
		Short: "Wait until engines have ended or are ready",
		Long:  waitText,
		Example: `  bursar wait 3f7k
  bursar wait 3f7k 9ab2 --timeout 1h
  bursar wait 3f7k --for ready && curl http://vm-1:8080/

  # all that live and have a name
  bursar wait $(bursar allocations --name sweep -o json |
    jq -r '.allocations[].id')`,
		Args:              cmdline.AtLeastOne,
		ValidArgsFunction: lookup.CompleteAllocations(c),
	}
	f := waitFlags{}
	flags := cmd.Flags()
	flags.StringVar(&f.what, "for", forEnd, "what to wait for: end or ready")
	cmdline.AddDuration(flags, &f.timeout, "timeout", "", "how long to wait (default: until it happens)")
	_ = cmd.RegisterFlagCompletionFunc("for", cobra.FixedCompletions([]cobra.Completion{forEnd, forReady}, cobra.ShellCompDirectiveNoFileComp))
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		switch {
		case f.what != forEnd && f.what != forReady:
			return failure.Usagef("--for %q: want %s or %s", f.what, forEnd, forReady)
		case cmd.Flags().Changed("timeout") && f.timeout <= 0:
			return failure.Usagef("--timeout %s: want a duration above zero, or no --timeout to wait until it happens", cmdline.Hours(f.timeout))
		}
		cl, err := lookup.Nearest(c, cmd, args)
		if err != nil {
			return err
		}
		var ids []string
		err = c.EachID(args, lookup.AllocationIDs(cmd.Context(), cl), func(id string) error {
			ids = append(ids, id)
			return nil
		})
		if err != nil {
			return err
		}
		return waitForAll(cmd.Context(), c.Reporter, cl, ids, &f)
	}
	return cmd
}

// waitForAll waits for all at the same time.
func waitForAll(ctx context.Context, c *failure.Reporter, cl *client.Client, ids []string, f *waitFlags) error {
	w := awaited{ready: f.what == forReady}
	if f.timeout > 0 {
		w.until = time.Now().Add(f.timeout)
	}
	var once sync.Once
	w.lost = func(err error) { once.Do(func() { c.Sayf("bursar: %s%s", c.Message(err), servers.TryingAgain) }) }
	ends := make([]error, len(ids))
	var printing sync.Mutex
	var waiting sync.WaitGroup
	for i, id := range ids {
		waiting.Go(func() {
			one := w
			one.id = id
			if f.what == forEnd {
				one.left = func(a *bursarv1.Allocation) { sayLeft(c.Printer, a, "bursar stop "+a.GetId()+" stops the rest") }
			}
			a, timedOut, err := await(ctx, cl, one)
			printing.Lock()
			defer printing.Unlock()
			render.SayTriedAgain(c.Printer, id, a)
			ends[i] = waitedFor(c, a, timedOut, err, f)
			if _, told := ends[i].(*failure.ExitError); !told && ends[i] != nil && len(ids) > 1 { //nolint:errorlint // made here
				c.Report(fmt.Errorf("%s: %w", id, ends[i]))
				ends[i] = &failure.ExitError{Code: failure.ExitCode(ends[i])}
			}
		})
	}
	waiting.Wait()
	for _, end := range ends {
		if end != nil {
			return end
		}
	}
	return nil
}

// waitedFor prints the end of one engine, and returns its end as an error without a text.
func waitedFor(c *failure.Reporter, a *bursarv1.Allocation, timedOut bool, err error, f *waitFlags) error {
	switch {
	case err != nil:
		return err
	case timedOut:
		c.Sayf("bursar: allocation %s: not within %s: %s", a.GetId(), cmdline.Hours(f.timeout), render.AllocationLine(a))
		return &failure.ExitError{Code: failure.ExitTimedOut}
	}
	if err := render.PrintAllocationLine(c.Printer, a); err != nil {
		return err
	}
	if !render.HasEnded(a) {
		return nil
	}
	if err := exitOf(a); err != nil {
		return err
	}
	if f.what == forReady {
		return &failure.ExitError{Code: failure.ExitFailed}
	}
	return nil
}
