package look

import (
	"bufio"
	"context"
	"io"
	"os"
	"runtime"
	"runtime/debug"
	"time"

	"github.com/bursar/bursar/agent/keeper"
)

const (
	// gcPercent keeps the heap small: it counts as the engine's.
	gcPercent = 20
	// endPatience is how long the end of a look is waited for if the keeper has ended.
	endPatience = 3 * time.Second
)

// Asked reports whether the arguments of the program ask for this mode. A keeper has one argument
// only.
func Asked(args []string) bool { return len(args) == 3 && args[1] == keeper.LookMode }

// probe looks whether the engine is ready. reason says why not.
type probe interface {
	look(ctx context.Context) (ready bool, reason string)
}

// Main is the program, and returns its exit code. It takes over the whole process.
func Main() int {
	if err := keeper.Confine(); err != nil {
		return 1
	}
	debug.SetGCPercent(gcPercent)
	runtime.GOMAXPROCS(2)
	// The children of this thread are killed if it ends, so it must not.
	runtime.LockOSThread()
	input, err := keeper.Pollable(0, "keeper")
	if err != nil {
		return 1
	}
	lines := bufio.NewReader(input)
	line, err := keeper.ReadLine(lines, keeper.MaxSpec)
	if err != nil {
		return 1
	}
	spec, err := keeper.DecodeHelperSpec(line)
	if err != nil {
		return 1
	}
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	go func() {
		_, _ = io.Copy(io.Discard, lines)
		cancel()
		<-time.After(endPatience)
		os.Exit(1) //nolint:forbidigo // a file system holds the look
	}()
	h := helper{spec: spec.Look, began: time.Now()}
	if h.probe, err = newProbe(spec); err != nil {
		h.note(keeper.Looked{Reason: err.Error()})
		return 0 // the next helper would find the same
	}
	debug.FreeOSMemory() // the line may have been some megabytes
	return h.run(ctx)
}

func newProbe(spec keeper.HelperSpec) (probe, error) {
	switch {
	case spec.Look.File != "":
		return file(spec.Look.File), nil
	case spec.Look.Line != nil:
		return newOutput(spec)
	default:
		return &command{spec: spec}, nil
	}
}

// helper makes the looks.
type helper struct {
	spec  keeper.Look
	probe probe
	began time.Time
	said  string // the last reason
	notes int    // how many reasons were written
}

func (h *helper) run(ctx context.Context) int {
	for {
		h.beat(keeper.LookBegins)
		look, cancel := context.WithTimeout(ctx, h.spec.Limit)
		ready, reason := h.probe.look(look)
		cancel()
		h.beat(keeper.LookEnded)
		now := time.Now()
		switch {
		case ctx.Err() != nil:
			return 1
		case ready:
			h.note(keeper.Looked{Ready: true})
			return 0
		case reason != h.said:
			h.said = reason
			h.note(keeper.Looked{Reason: reason})
		}
		left := h.spec.Within - now.Sub(h.began)
		if left <= 0 {
			return 0
		}
		timer := time.NewTimer(min(left, Pause(now.Sub(h.began), 0, h.spec.Interval)))
		select {
		case <-timer.C:
		case <-ctx.Done():
			timer.Stop()
			return 1
		}
	}
}

// beat tells the keeper that a look begins or ends.
func (h *helper) beat(beat byte) { _, _ = os.Stdout.Write([]byte{beat}) }

// note appends to the record. A few lines show the cause of a wait.
func (h *helper) note(l keeper.Looked) {
	if h.notes++; !l.Ready && h.notes > keeper.MaxLooks {
		return
	}
	l.Time = time.Now().UTC()
	if line, err := keeper.EncodeLooked(l); err == nil {
		_, _ = os.Stderr.Write(line) // no process is left to tell
	}
}
