package engines

import (
	"context"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"

	"github.com/spf13/cobra"
	"golang.org/x/term"

	"github.com/bursar/bursar/client"
	"github.com/bursar/bursar/internal/cli/cmdline"
	"github.com/bursar/bursar/internal/cli/failure"
	"github.com/bursar/bursar/internal/cli/launches"
	"github.com/bursar/bursar/internal/cli/requests"
	bursarv1 "github.com/bursar/bursar/proto/bursar/v1"
)

const runText = `Run asks this machine's agent for resources and starts the command when they are
granted. The process is confirmed before the command begins, so that the
command sees the limits of its own cgroup from the start. Run gives everything
back when the command and all that it has started have ended, for whatever
reason. While it waits it shows its place in the queue and
the reason. It passes signals on and ends with the command's own exit code
(128+n if signal n ended it). If something else than the command is the cause,
such as a lack of memory, it says so, and what to ask for next time. SIGHUP and SIGINT that were ignored when it was
started, as under nohup or in a script's background, stay ignored for it and the
command; of other signals a program in Go cannot tell.

If the command ends and processes that it has started go on, such as a daemon,
run says so and waits for them: they keep the allocation. SIGINT (Ctrl-C),
SIGTERM, SIGHUP or SIGQUIT then stops them, with --grace, and run ends with
128+n. If run itself is killed, its agent keeps the allocation until they have
ended. A command that starts daemons is better started with --detach.

Without --limit, memory is booked and not capped: the command can use more than
it asked for. What happens then is the host's policy: by default it is shown and
logged, and a host can also limit or stop such commands. With --limit the kernel
caps the command, with all that it starts, at what it is granted, in a cgroup of
its own: what needs more memory is killed, and its cores are throttled. If the
host cannot do that, the command does not run. A stricter policy of the host
stays in force.

With --external it also holds a part in a queue of another cluster: see bursar
help external. When the command knows its application there, it runs "bursar
confirm --application ID"; nothing else is needed. From then on the queue shows
what the application uses.

The command finds its allocation in BURSAR_ALLOCATION_ID, BURSAR_MEMORY_BYTES
and BURSAR_CPU_MILLIS, and its agent in BURSAR_AGENT.

The command has the environment of this program, without the secrets that bursar
reads: BURSAR_TOKEN, BURSAR_COORDINATOR_STORE, CONSUL_HTTP_TOKEN,
CONSUL_HTTP_AUTH, PGPASSWORD and the HEADERS of OTEL_EXPORTER_OTLP. --env NAME
passes one of them on.

With --detach the agent starts the command and keeps it in the background. Its
output goes to files. It goes on when the agent or this terminal ends. When it
ends itself, its allocation is released with its exit status and the last lines
of its standard error. Its environment has what --env and --env-all say, and
also HOME, USER, LOGNAME, SHELL, PATH and the BURSAR_ variables.`

const runExamples = `  bursar run --memory 256MiB --cpu 500m --label user=$USER \
    --label creator=shell --label engineType=demo -- sleep 60
  bursar run -m 4GiB -c 2 -l user=alice -l engineType=spark-3.3 --wait 30s \
    -- spark-submit job.py
  bursar run -m 16GiB --custom gpu=1 -l user=alice --wait 1h -- python train.py
  bursar run --detach -m 4GiB -c 2 -l user=$USER --env-all \
    -- spark-submit job.py

  # on another host, with its output here and in a file
  bursar run --remote -m 4GiB -c 2 --require 'zone in (a, b)' --wait 1h \
    -o result.txt -- python3 /shared/job.py

  bursar run -m 4GiB -l user=alice --wait 5m \
    --external yarn:prod:root.a,memory=64GiB,cpu=16 \
    -- spark-submit --master yarn job.py`

func runCommand(c *cmdline.Invocation) *cobra.Command {
	cmd := &cobra.Command{
		Use:     "run [flags] -- COMMAND [ARGUMENT…]",
		Short:   "Start a command when there is room, and give all back at its end",
		Long:    runText + runRemoteText,
		Example: runExamples,
		Args:    runArguments,
	}
	f := requests.AddFlags(cmd)
	requests.AddNameFlag(cmd, f)
	grace := cmdline.NewDuration(cmd.Flags(), client.DefaultGrace, "grace", "time between SIGTERM and SIGKILL, if the command has to be stopped")
	detached := addDetachFlags(cmd)
	placed := addRemoteFlags(cmd, f)
	limit := cmd.Flags().Bool("limit", false, "have the kernel cap memory and cores at what is granted (default: as the host's policy says)")
	cmd.Flags().SetInterspersed(false) // what follows the command is the command's
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		req, err := f.Request()
		if err != nil {
			return err
		}
		c.Warn(f.Doubts())
		if err := placed.check(cmd, detached); err != nil {
			return err
		}
		if placed.remote {
			return placed.run(cmd, c, f, req, args, detached, *grace, *limit)
		}
		if err := detached.check(cmd); err != nil {
			return err
		}
		cl, err := c.LocalAgent(cmd.Context())
		if err != nil {
			return err
		}
		if detached.detach {
			detached.limit = *limit
			return runDetached(cmd.Context(), c.Reporter, cl, req, args, detached)
		}
		env, err := launches.NamedVariables(detached.env)
		if err != nil {
			return err
		}
		return runHere(cmd.Context(), c, cl, client.RunOptions{Request: req, Grace: *grace, Limit: *limit}, args, env)
	}
	return cmd
}

// runArguments are those of run. With --remote a script may be in place of the command.
func runArguments(cmd *cobra.Command, args []string) error {
	if cmd.Flags().Changed("remote") {
		return nil
	}
	return cmdline.AtLeastOne(cmd, args)
}

// run runs a command with some options of client.Run. It fills in the others.
func runHere(ctx context.Context, c *cmdline.Invocation, cl *client.Client, options client.RunOptions, args, env []string) error {
	req := options.Request
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	if req.RequestId == "" {
		req.RequestId = client.NewRequestID()
	}
	command := exec.CommandContext(context.WithoutCancel(ctx), args[0], args[1:]...) //nolint:gosec // is what it is for
	command.Stdin, command.Stdout, command.Stderr = c.In, c.Stdout(), c.Err
	command.Env = append(append(inherited(), env...), "BURSAR_AGENT="+absoluteTarget(cl.Target()))
	// A command that reads from the terminal stays in our process group: in another it would be in
	// the background and could not read.
	group := !term.IsTerminal(int(c.In.Fd()))
	command.SysProcAttr = &syscall.SysProcAttr{Setpgid: group}

	held := holdCommand(command)
	defer held.abandon()
	relay := newRelay(group, cancel)
	left := newLeftovers(c.Reporter, cl, options.Grace)
	stopShowing := requests.ShowWait(ctx, c.Reporter, cl, req)
	options.Command, options.Ending = command, relay.stop
	options.Started = left.started(func(process *os.Process) {
		held.started()
		relay.to(process)
	})
	options.Confirmed, options.Rest = held.begin, left.hook()
	options.Granted = func(a *bursarv1.Allocation) {
		stopShowing()
		sayNormalized(c.Printer, a)
	}
	result, err := cl.Run(ctx, options)
	held.started()
	stopShowing()
	relay.stop()
	if sig, interrupted := relay.interrupted(); interrupted {
		return &failure.ExitError{Code: failure.ExitSignal + int(sig)}
	}
	if left != nil && left.caught != 0 {
		return &failure.ExitError{Code: failure.ExitSignal + int(left.caught)}
	}
	return runEnd(ctx, c.Reporter, cl, result, err)
}

// absoluteTarget is a server's name for a command that may run in another folder.
func absoluteTarget(target string) string {
	path, isUnix := strings.CutPrefix(target, "unix:")
	if !isUnix && (strings.Contains(target, "://") || !strings.Contains(target, "/")) {
		return target
	}
	if absolute, err := filepath.Abs(path); err == nil {
		return absolute
	}
	return target
}
