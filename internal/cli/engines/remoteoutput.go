package engines

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os/signal"
	"sync"
	"syscall"
	"time"

	"connectrpc.com/connect"

	"github.com/bursar/bursar/client"
	"github.com/bursar/bursar/internal/cli/cmdline"
	"github.com/bursar/bursar/internal/cli/outputs"
	"github.com/bursar/bursar/internal/cli/render"
	"github.com/bursar/bursar/internal/pause"
	bursarv1 "github.com/bursar/bursar/proto/bursar/v1"
)

// lastOutput is how long output that has not come is waited for once the engine has ended: its host
// may be cut off.
const lastOutput = 30 * time.Second

// follow shows the output of an engine, and of those that follow it as further tries, until the
// last one has ended.
func (r *remote) follow(ctx context.Context, a *bursarv1.Allocation) (*bursarv1.Allocation, error) {
	signal.Ignore(syscall.SIGPIPE) // an error tells
	if err := r.copies.begin(); err != nil {
		r.copyFailed(err)
	}
	over := make(chan struct{})
	var last *bursarv1.Allocation
	var failed error
	var waiting sync.WaitGroup
	waiting.Go(func() {
		defer close(over)
		last, _, failed = await(ctx, r.cl, awaited{id: a.GetId(), insist: true, left: r.sayLeft, lost: func(err error) {
			r.once("wait", func() { r.c.Sayf("bursar: %s; the engine goes on, trying again", r.c.Message(err)) })
		}})
		r.note(last)
	})
	for id := a.GetId(); id != ""; id = r.nextTry(ctx, id, over) {
		r.copy(ctx, id, over)
	}
	waiting.Wait()
	return last, failed
}

// copy shows both outputs of one engine to their ends.
func (r *remote) copy(ctx context.Context, id string, over <-chan struct{}) {
	out := io.Writer(r.c.Stdout())
	if r.copies != nil {
		out = io.MultiWriter(out, copyWriter{r})
	}
	var both sync.WaitGroup
	for stream, to := range map[bursarv1.OutputStream]io.Writer{
		bursarv1.OutputStream_OUTPUT_STREAM_STDOUT: out, bursarv1.OutputStream_OUTPUT_STREAM_STDERR: r.c.Err,
	} {
		both.Go(func() {
			reader := &outputs.Reader{
				Client: r.cl, Request: &bursarv1.LogsRequest{Id: id, Stream: stream, Follow: true}, To: to, Over: over, LastPatience: lastOutput,
				Gap: r.gap(stream), Lost: r.noOutput, MayComeBack: func(err error) bool { return r.mayComeBack(ctx, id, err) },
			}
			r.copied(ctx, stream, reader.Copy(ctx))
		})
	}
	both.Wait()
}

// sayLeft says that the engine goes on without its main process.
func (r *remote) sayLeft(a *bursarv1.Allocation) {
	sayLeft(r.c.Printer, a, fmt.Sprintf("Ctrl-C twice within %s stops the rest, and so does: bursar stop %s", cmdline.Hours(againWithin), a.GetId()))
}

// copied takes note of how the copying of a stream has ended.
func (r *remote) copied(ctx context.Context, stream bursarv1.OutputStream, err error) {
	_, isWrite := errors.AsType[*outputs.WriteError](err)
	_, isUncounted := errors.AsType[*outputs.UncountedError](err)
	switch {
	case err == nil, ctx.Err() != nil:
	case isWrite && errors.Is(err, syscall.EPIPE) && stream == bursarv1.OutputStream_OUTPUT_STREAM_STDOUT:
		r.mu.Lock()
		r.unread = true
		id := r.id
		r.mu.Unlock()
		if err := r.stopEngine(ctx, id, "the reader of its output has gone"); err != nil {
			r.c.Sayf("bursar: %s; see bursar allocations %s", r.c.Message(err), id)
		}
	case isWrite, isUncounted:
		r.c.Sayf("bursar: %s: %s; the engine goes on", streamName(stream), err)
		r.mu.Lock()
		r.cut = true
		r.mu.Unlock()
	default:
		r.noOutput(err)
	}
}

// noOutput says once that there is no output at the moment, and that the engine goes on.
func (r *remote) noOutput(err error) {
	r.once("output", func() {
		r.c.Sayf("bursar: no output at the moment: %s; the engine goes on, and its end is waited for", r.c.Message(err))
	})
}

// mayComeBack reports whether a call for the output may have an answer later. A launch that has not
// told where its output goes yet is asked again.
func (r *remote) mayComeBack(ctx context.Context, id string, err error) bool {
	if connect.CodeOf(err) != connect.CodeFailedPrecondition {
		return outputs.MayComeBack(err)
	}
	ctx, cancel := context.WithTimeout(ctx, answerTime)
	defer cancel()
	res, failed := quiet(r.cl).Allocations().Get(ctx, &bursarv1.AllocationServiceGetRequest{Id: id})
	if failed != nil {
		return client.Unavailable(failed)
	}
	return !render.HasEnded(res.GetAllocation()) && res.GetAllocation().GetLaunch().GetLogDirectory() == ""
}

// gap says which bytes are gone.
func (r *remote) gap(stream bursarv1.OutputStream) func(from, to int64) {
	return func(from, to int64) { sayGap(r.c.Printer, stream, from, to) }
}

// sayGap says which bytes of an output are gone.
func sayGap(out *render.Printer, stream bursarv1.OutputStream, from, to int64) {
	out.Sayf("bursar: %s: %d bytes are gone, from offset %d to %d: their files were removed, or could not be written", streamName(stream), to-from, from, to)
}

func streamName(stream bursarv1.OutputStream) string {
	if stream == bursarv1.OutputStream_OUTPUT_STREAM_STDERR {
		return "standard error"
	}
	return "standard output"
}

// nextTry waits until it is known whether another try follows the engine of an allocation, and
// returns its allocation; empty: none does.
func (r *remote) nextTry(ctx context.Context, id string, over <-chan struct{}) string {
	if r.req.GetRetries() == 0 {
		return ""
	}
	for {
		ended := false
		select {
		case <-over:
			ended = true
		default:
		}
		switch a := r.look(ctx); {
		case ctx.Err() != nil:
			return ""
		case a != nil && a.GetId() != id && hasBegun(a):
			r.note(a)
			return a.GetId()
		case ended && (a == nil || a.GetId() == id || render.HasEnded(a)):
			return ""
		}
		if !pause.For(lookFirst, ctx.Done(), nil) {
			return ""
		}
	}
}

// copyWriter writes to the local copy of the standard output. If that cannot be written, the output
// goes on without it.
type copyWriter struct{ remote *remote }

// Write writes to the file.
func (w copyWriter) Write(data []byte) (int, error) {
	to := w.remote.copies
	if to.failed {
		return len(data), nil
	}
	if _, err := to.file.Write(data); err != nil {
		w.remote.copyFailed(err)
	}
	return len(data), nil
}

// copyFailed takes note that a part of the local copy is missing.
func (r *remote) copyFailed(err error) {
	r.copies.failed = true
	r.c.Sayf("bursar: the copy of the output ends: %s; the engine goes on", err)
	r.mu.Lock()
	r.cut = true
	r.mu.Unlock()
}
