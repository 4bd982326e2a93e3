package serve

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"
	"sync"
	"time"

	"github.com/bursar/bursar/client"
	"github.com/bursar/bursar/internal/cli/cmdline"
	"github.com/bursar/bursar/internal/cli/lookup"
	"github.com/bursar/bursar/internal/cli/render"
	bursarv1 "github.com/bursar/bursar/proto/bursar/v1"
	"github.com/bursar/bursar/resource"
)

// demo shows the main job with real processes: an engine that takes all of the cpu that is left,
// one that waits until it ends, and one that does not want to wait.
func showDemo(ctx context.Context, c *cmdline.Invocation, cl *client.Client, host *bursarv1.Host) error {
	free := host.GetAccount().GetAvailable().GetCpuMillis()
	if free < 100 {
		c.Printf("\nno demo: all the cpu of this host is booked, by what `bursar allocations` shows\n")
		return nil
	}
	all, some := resource.FormatCPU(free), resource.FormatCPU(max(50, free/2))
	c.Printf("\nthe main job, with real processes:\n\n")
	d := &demonstration{calls: c, client: cl, ended: make(map[string]bool)}
	defer d.running.Wait()

	d.start(ctx, "first", "--cpu", all, "--memory", "64MiB", "--", "sleep", "3")
	if err := d.await(ctx, "first", bursarv1.AllocationState_ALLOCATION_STATE_ACTIVE); err != nil {
		return err
	}
	d.start(ctx, "second", "--cpu", some, "--memory", "64MiB", "--wait", "30s", "--", "sh", "-c", "echo runs with $BURSAR_CPU_MILLIS millicores")
	if err := d.await(ctx, "second", bursarv1.AllocationState_ALLOCATION_STATE_WAITING); err != nil {
		return err
	}
	d.start(ctx, "third", "--cpu", some, "--memory", "64MiB", "--", "true")
	if err := d.await(ctx, "third", bursarv1.AllocationState_ALLOCATION_STATE_UNSPECIFIED); err != nil {
		return err
	}
	c.Printf("\n$ bursar allocations --label user=demo\n")
	list := lookup.Filter{Labels: cmdline.FilterFlag{"user": "demo"}}
	now, _, err := list.List(ctx, cl)
	if err != nil {
		return err
	}
	render.PrintAllocations(c.Printer, now.GetAllocations(), list.Text())
	c.Printf("\n")
	return nil
}

// demonstration runs commands of bursar, each with its name in front of its output.
type demonstration struct {
	calls   *cmdline.Invocation
	client  *client.Client
	running sync.WaitGroup

	mu    sync.Mutex // guards ended and what is printed
	ended map[string]bool
}

// start runs `bursar run` for an engine.
func (d *demonstration) start(ctx context.Context, name string, args ...string) {
	labels := []string{"run", "--label", "user=demo", "--label", "engineType=" + name}
	d.say("$ bursar " + strings.Join(append(append([]string{}, labels...), quoted(args)...), " "))
	command := append(append([]string{"--agent", d.calls.Agent}, labels...), args...)
	d.running.Go(func() {
		code, err := d.execute(ctx, name, command)
		d.mu.Lock()
		defer d.mu.Unlock()
		d.ended[name] = true
		switch {
		case err != nil:
			d.calls.Printf("%7s | %v\n", name, err)
		case ctx.Err() == nil:
			d.calls.Printf("%7s | ended with code %d\n", name, code)
		}
	})
}

// execute runs a command line of bursar in this process.
func (d *demonstration) execute(ctx context.Context, name string, args []string) (code int, err error) {
	nothing, err := os.Open(os.DevNull)
	if err != nil {
		return 0, fmt.Errorf("open: %w", err)
	}
	defer nothing.Close()
	read, write, err := os.Pipe()
	if err != nil {
		return 0, fmt.Errorf("pipe: %w", err)
	}
	var printing sync.WaitGroup
	printing.Go(func() {
		defer read.Close()
		lines := bufio.NewScanner(read)
		for lines.Scan() {
			d.say(fmt.Sprintf("%7s | %s", name, lines.Text()))
		}
		_, _ = io.Copy(io.Discard, read) // a line that is too long
	})
	code = d.calls.Execute(ctx, args, cmdline.Streams{In: nothing, Out: write, Err: write})
	err = write.Close()
	printing.Wait()
	return code, err //nolint:wrapcheck // cannot fail
}

// await returns when the engine's allocation is in that state, or when its command has ended.
func (d *demonstration) await(ctx context.Context, name string, state bursarv1.AllocationState) error {
	ctx, cancel := context.WithTimeout(ctx, 20*time.Second)
	defer cancel()
	ticker := time.NewTicker(20 * time.Millisecond)
	defer ticker.Stop()
	for {
		if d.hasEnded(name) {
			return nil
		}
		if state != bursarv1.AllocationState_ALLOCATION_STATE_UNSPECIFIED {
			page, err := d.client.Allocations().List(ctx, &bursarv1.AllocationServiceListRequest{
				Labels: map[string]string{"user": "demo", "engineType": name}, States: []bursarv1.AllocationState{state},
			})
			if err != nil {
				return err
			}
			if len(page.GetAllocations()) > 0 {
				return nil
			}
		}
		select {
		case <-ticker.C:
		case <-ctx.Done():
			return errors.New("the demo's " + name + " engine takes too long")
		}
	}
}

func (d *demonstration) hasEnded(name string) bool {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.ended[name]
}

func (d *demonstration) say(line string) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.calls.Printf("%s\n", line)
}

// quoted writes arguments so that a shell reads them as they are.
func quoted(args []string) []string {
	out := make([]string, len(args))
	for i, arg := range args {
		if out[i] = arg; strings.ContainsAny(arg, " $") {
			out[i] = "'" + arg + "'"
		}
	}
	return out
}
