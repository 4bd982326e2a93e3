package engines

import (
	"fmt"

	"github.com/spf13/cobra"
	"golang.org/x/term"

	"github.com/bursar/bursar/client"
	"github.com/bursar/bursar/internal/cli/cmdline"
	"github.com/bursar/bursar/internal/cli/failure"
	"github.com/bursar/bursar/internal/cli/launches"
	"github.com/bursar/bursar/internal/cli/render"
	"github.com/bursar/bursar/internal/cli/requests"
	bursarv1 "github.com/bursar/bursar/proto/bursar/v1"
)

const submitText = `Submit has a command started on a host that has room for it, prints the id of
its allocation, and does not wait for it. If nothing is free the request waits
in the queue, for a day if --wait does not say otherwise. The id is all that is
printed on standard output, so that a script can keep it.

  id=$(bursar submit -m 4GiB -c 2 -- python3 /shared/train.py)
  bursar allocations $id   where it is, why it waits, whether it is ready
  bursar explain $id       why it waits, with numbers
  bursar logs -f $id       its standard output; --stderr: its standard error
  bursar wait $id          until it has ended; ends with its exit code
  bursar signal $id        SIGTERM, or another signal
  bursar stop $id          its end

If it failed, "bursar allocations ID" shows the exit code, the last lines of
standard error, and whether memory ran out and what to ask for next time.

`

const submitExamples = `  bursar submit -m 4GiB -c 2 --name train -- python3 /shared/train.py

  # a script from here, with arguments
  bursar submit -m 1GiB --script job.sh -- 2027-01-31

  # a server, which is ready when it listens
  bursar submit -m 2GiB --ready-port 8080 --ready-within 1m -- /opt/app/serve

  # on a host in zone a or b that has a GPU and is not old
  bursar submit -m 16GiB --custom gpu=1 --require 'zone in (a, b)' \
    --require '!old' -- python3 /shared/train.py

  # fifty, and wait for all of them
  ids=$(for n in $(seq 50); do
    bursar submit -m 1GiB --name sweep -- /shared/sweep $n; done)
  bursar wait $ids`

func submitCommand(c *cmdline.Invocation) *cobra.Command {
	cmd := &cobra.Command{
		Use:     "submit [flags] -- COMMAND [ARGUMENT…]",
		Short:   "Start a command on any host, and do not wait for it",
		Long:    submitText + remoteText + "\n\n" + rightsText,
		Example: submitExamples,
		Args:    cobra.ArbitraryArgs,
	}
	f := requests.AddFlagsWith(cmd, requests.Defaults{Wait: submitWait})
	requests.AddNameFlag(cmd, f)
	requests.AddPlaceFlags(cmd, f)
	var launch launches.Flags
	flags := cmd.Flags()
	flags.StringArrayVar(&launch.Env, "env", nil, "NAME=VALUE in its environment, or NAME for the value it has here; repeatable")
	launch.Add(cmd, "")
	_ = flags.MarkHidden("secret") // it is there to say why there is none
	flags.StringVar(&launch.LogDirectory, "log-dir", "", "the folder on the host for its files stdout and stderr (default: the agent makes one)")
	flags.BoolVar(&launch.Limit, "limit", false, "have the kernel cap memory and cores at what is granted (default: as the host's policy says)")
	flags.SetInterspersed(false) // what follows the command is the command's
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		req, err := f.Request()
		if err != nil {
			return err
		}
		c.Warn(f.Doubts())
		start, err := launch.Request(c, req, args)
		if err != nil {
			return err
		}
		if len(start.GetSecrets()) > 0 {
			return failure.Usagef("--secret: nobody stores secrets, so their caller has to stay: want bursar run --remote, or a file on the host that only the account can read")
		}
		cl, err := c.Coordinator(cmd.Context())
		if err != nil {
			return err
		}
		c.Warn(f.PlaceDoubts(cmd.Context(), cl))
		req.Async = true
		if req.GetRequestId() == "" {
			req.RequestId = client.NewRequestID()
		}
		res, err := cl.Engines().Start(cmd.Context(), start)
		if err != nil {
			return err
		}
		if err := c.Print(res, func() { c.Printf("%s\n", res.GetAllocation().GetId()) }); err != nil {
			return fmt.Errorf("%w; the request is there: its id is %s", err, res.GetAllocation().GetId())
		}
		requests.SayImpossible(cmd.Context(), c.Reporter, cl, res.GetAllocation())
		saySubmitted(c.Printer, res.GetAllocation())
		return nil
	}
	return cmd
}

// saySubmitted tells a person at a terminal the state of the request and the next commands.
func saySubmitted(out *render.Printer, a *bursarv1.Allocation) {
	if !term.IsTerminal(int(out.Stdout().Fd())) || out.IsJSON() {
		return
	}
	out.Sayf("%s; next: bursar logs -f %s, bursar wait %s", render.AllocationLine(a), a.GetId(), a.GetId())
}
