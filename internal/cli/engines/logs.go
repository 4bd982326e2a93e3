package engines

import (
	"context"
	"errors"
	"math"
	"syscall"

	"connectrpc.com/connect"
	"github.com/spf13/cobra"

	"github.com/bursar/bursar/client"
	"github.com/bursar/bursar/internal/cli/cmdline"
	"github.com/bursar/bursar/internal/cli/failure"
	"github.com/bursar/bursar/internal/cli/lookup"
	"github.com/bursar/bursar/internal/cli/outputs"
	"github.com/bursar/bursar/internal/cli/render"
	"github.com/bursar/bursar/internal/cli/servers"
	"github.com/bursar/bursar/internal/pause"
	bursarv1 "github.com/bursar/bursar/proto/bursar/v1"
)

const logsText = `Logs prints what an engine wrote on its standard output, byte for byte; with
--stderr what it wrote on its standard error. With -f it waits until the engine
begins, and goes on with what the engine writes, until the engine has ended. If
the connection is lost or another coordinator leads, it goes on at the next
byte.

The output of engines that an agent started is there: those of "bursar submit",
"bursar run --remote" and "bursar run --detach". It is kept on the engine's
host, also after the engine's end, as long as its files are there. If the engine
writes more than the files hold, the oldest bytes are removed; logs says on
standard error which bytes are gone. An engine that somebody started without an
agent writes where its starter says.

If an engine failed to become ready and was tried again, logs prints the output
of the last try, whichever try the ID is of, and says so; -f goes on with the
next try. --this-try prints the output of the try with that ID.

You need the right to act as the engine's user, or to operate.`

// logsFlags say which output is wanted, and from where.
type logsFlags struct {
	stderr, follow bool
	since          cmdline.TimeFlag
	tail           int32
	offset         int64
	thisTry        bool
}

func logsCommand(c *servers.Connections) *cobra.Command {
	cmd := &cobra.Command{
		Use:   "logs ID",
		Short: "Print what an engine wrote, or follow it",
		Long:  logsText,
		Example: `  bursar logs 3f7k
  bursar logs -f 3f7k
  bursar logs 3f7k --stderr --tail 20
  bursar logs 3f7k --since 10m
  bursar logs 3f7k > output.bin

  # go on where the last call ended
  bursar logs 3f7k --offset $(stat -c %s output.bin) >> output.bin`,
		Args:              cmdline.ExactlyOne(),
		ValidArgsFunction: lookup.CompleteOneAllocation(c),
	}
	f := logsFlags{}
	flags := cmd.Flags()
	flags.BoolVarP(&f.follow, "follow", "f", false, "go on with what the engine writes, until it has ended")
	flags.BoolVar(&f.stderr, "stderr", false, "its standard error, instead of its standard output")
	flags.Int32VarP(&f.tail, "tail", "n", 0, "so many lines before the end, and what comes then")
	flags.Var(&f.since, "since", "from the first file that was written at this time or later: 10m, '2027-01-31 08:00:00'")
	flags.Int64Var(&f.offset, "offset", 0, "from this byte on; the engine's first one is 0")
	flags.BoolVar(&f.thisTry, "this-try", false, "of the try with this very id, also if the engine was tried again")
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		if c.Form != "" && c.Form != render.OutputTable {
			return failure.Usagef("-o %s: logs prints bytes as they are: want no -o; > FILE writes them to a file", c.Form)
		}
		req, err := f.request(cmd)
		if err != nil {
			return err
		}
		cl, err := lookup.Nearest(c, cmd, args)
		if err != nil {
			return err
		}
		if req.Id, err = lookup.AllocationID(cmd.Context(), cl, args[0]); err != nil {
			return err
		}
		return (&logsReader{Reporter: c.Reporter, client: cl, request: req, thisTry: f.thisTry}).show(cmd.Context())
	}
	return cmd
}

// request makes the request of the flags. It has no id yet.
func (f *logsFlags) request(cmd *cobra.Command) (*bursarv1.LogsRequest, error) {
	req := &bursarv1.LogsRequest{Stream: bursarv1.OutputStream_OUTPUT_STREAM_STDOUT, Follow: f.follow}
	if f.stderr {
		req.Stream = bursarv1.OutputStream_OUTPUT_STREAM_STDERR
	}
	begin := ""
	for _, name := range []string{"tail", "since", "offset"} {
		if !cmd.Flags().Changed(name) {
			continue
		}
		if begin != "" {
			return nil, failure.Usagef("--%s and --%s: want one of them", begin, name)
		}
		begin = name
	}
	const mostLines = 1000000 // the contract's
	switch begin {
	case "tail":
		if f.tail < 0 || f.tail > mostLines {
			return nil, failure.Usagef("--tail %d: want a number of lines from 0 to %d", f.tail, mostLines)
		}
		req.Start = &bursarv1.LogsRequest_TailLines{TailLines: f.tail}
	case "since":
		req.Start = &bursarv1.LogsRequest_Since{Since: f.since.Message()}
	case "offset":
		if f.offset < 0 {
			return nil, failure.Usagef("--offset %d: want a number from 0 to %d", f.offset, int64(math.MaxInt64))
		}
		req.Start = &bursarv1.LogsRequest_Offset{Offset: f.offset}
	}
	return req, nil
}

// logsReader shows the output of one engine.
type logsReader struct {
	*failure.Reporter

	client  *client.Client
	request *bursarv1.LogsRequest
	// thisTry: of one try alone, also if the engine was tried again.
	thisTry bool
}

// show copies an output to standard output. If it is followed, the output of each further try
// follows.
func (r *logsReader) show(ctx context.Context) error {
	for {
		a, err := r.await(ctx)
		if err != nil {
			return err
		}
		if err := r.copy(ctx); err != nil || !r.request.GetFollow() {
			return err
		}
		if again, err := r.isTriedAgain(ctx, a); err != nil || !again {
			return err
		}
		r.request.Start = nil // the next try has another output
	}
}

// await waits until an engine has begun, if that is to be expected and the output is to be
// followed, and names the event that it waits for. It looks at the engine at least once: a request
// without a stream ends at once if nobody is there or the id is unknown.
func (r *logsReader) await(ctx context.Context) (*bursarv1.Allocation, error) {
	said := ""
	for every := lookFirst; ; every = min(2*every, lookLast) {
		a, err := r.look(ctx)
		if err != nil {
			return nil, err
		}
		if a.GetId() != r.request.GetId() {
			render.SayTriedAgain(r.Printer, r.request.GetId(), a)
			r.request.Id = a.GetId()
		}
		if !r.request.GetFollow() || a.GetLaunch() == nil || hasBegun(a) || render.HasEnded(a) {
			return a, nil
		}
		if line := render.AllocationLine(a); line != said && every > lookFirst {
			r.Sayf("bursar: %s", line)
			said = line
		}
		if !pause.For(every, ctx.Done(), nil) {
			return nil, ctx.Err() //nolint:wrapcheck // the caller's own
		}
	}
}

// look reads the allocation whose output is wanted.
func (r *logsReader) look(ctx context.Context) (*bursarv1.Allocation, error) {
	res, err := r.client.Allocations().Get(ctx, &bursarv1.AllocationServiceGetRequest{Id: r.request.GetId(), LastTry: !r.thisTry})
	return res.GetAllocation(), err
}

// isTriedAgain waits until it is known whether another try follows that of an engine whose output
// has ended. Its end may not be known yet.
func (r *logsReader) isTriedAgain(ctx context.Context, a *bursarv1.Allocation) (bool, error) {
	if r.thisTry || a.GetLaunch().GetRetries() == 0 {
		return false, nil
	}
	for {
		now, err := r.look(ctx)
		switch {
		case err != nil && !outputs.MayComeBack(err):
			return false, err
		case err == nil && now.GetId() != r.request.GetId():
			return true, nil
		case err == nil && (render.HasEnded(now) || now.GetPhase() == bursarv1.Phase_PHASE_READY):
			return false, nil
		}
		if !pause.For(lookFirst, ctx.Done(), nil) {
			return false, ctx.Err() //nolint:wrapcheck // the caller's own
		}
	}
}

// copy copies the output of one try.
func (r *logsReader) copy(ctx context.Context) error {
	req := r.request
	reader := &outputs.Reader{
		Client: r.client, Request: req, To: r.Stdout(), Patience: servers.PresentPatience,
		Gap:       func(from, to int64) { sayGap(r.Printer, req.GetStream(), from, to) },
		Uncounted: func() { r.Sayf("bursar: its bytes were not counted: offsets begin at the oldest file that is there") },
		Lost:      func(err error) { r.Sayf("bursar: %s%s", r.Message(err), servers.TryingAgain) },
	}
	if req.GetFollow() {
		reader.Patience = 0
	} else {
		reader.MayComeBack = func(err error) bool { return outputs.MayComeBack(err) && !isAway(err) }
	}
	err := reader.Copy(ctx)
	if errors.Is(err, syscall.EPIPE) {
		return &failure.ExitError{Code: failure.ExitFailed}
	}
	if err == nil && reader.Total() == 0 && req.GetStart() == nil && req.GetStream() == bursarv1.OutputStream_OUTPUT_STREAM_STDOUT {
		r.Sayf("nothing on standard output; bursar logs --stderr %s shows standard error", req.GetId())
	}
	return err
}

// isAway reports whether a coordinator says that it waits for nobody: the host is suspect or lost.
func isAway(err error) bool {
	return connect.IsWireError(err) && connect.CodeOf(err) == connect.CodeDeadlineExceeded
}
