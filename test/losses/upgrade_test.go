package losses

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"syscall"
	"testing"

	"connectrpc.com/connect"
	"google.golang.org/protobuf/types/known/durationpb"

	bursarv1 "github.com/bursar/bursar/proto/bursar/v1"
	"github.com/bursar/bursar/test/proc"
)

// upgrade has the other program stand in for the agent from now on.
func (p *place) upgrade() { p.program = filepath.Join(programs, "next", "bursar") }

// Engines go on while an agent of another version replaces theirs and takes all of them over. A
// request that waits keeps its place.
func TestAgentIsUpgraded(t *testing.T) {
	t.Parallel()
	p := startPlace(t, settings{agent: "capacity: {memory: 256MiB}\n"})
	engines := p.three("") // of four times 64 MiB
	filler := p.launched("filler")
	engines = append(engines, filler)
	p.right(engines)
	if got := p.host().GetVersion(); got != version {
		t.Fatalf("the host's agent is %q", got)
	}

	type answer struct {
		response *bursarv1.AllocateResponse
		err      error
	}
	answered := make(chan answer, 1)
	waits := request(map[string]string{"user": "root", "engineType": "waits"})
	waits.Wait = durationpb.New(patience)
	go func() {
		response, err := p.local.Allocations().Allocate(t.Context(), waits)
		answered <- answer{response, err}
	}()
	eventually(t, "it waits", func() error {
		for _, a := range p.live() {
			if a.GetRequestId() == waits.GetRequestId() {
				return nil
			}
		}
		return errNotYet
	})
	p.shut(p.agent)
	p.upgrade()
	always(t, tick, "while no agent is there", func() error { return undisturbed(engines) })
	p.startAgent()
	p.inTime("the host has another agent", func() error {
		if got := p.host().GetVersion(); got != next {
			return fmt.Errorf("it is %q", got)
		}
		return nil
	})
	filler.end(0, "")
	p.endedWith(filler, 0)
	engines = without(engines, filler)
	got := <-answered
	// The old agent has ended the call: its caller asks again, under the same id.
	if got.err != nil {
		if connect.CodeOf(got.err) != connect.CodeUnavailable && connect.CodeOf(got.err) != connect.CodeCanceled {
			t.Errorf("the call was ended with %v", got.err)
		}
		var err error
		if got.response, err = p.local.Allocations().Allocate(t.Context(), waits); err != nil {
			t.Fatal(err)
		}
	}
	if state := got.response.GetAllocation().GetState(); state != reserved {
		t.Errorf("what waited is %v", got.response)
	}
	if _, err := p.local.Allocations().Release(t.Context(), &bursarv1.ReleaseRequest{Id: got.response.GetAllocation().GetId()}); err != nil {
		t.Fatal(err)
	}
	p.right(engines)
}

// waitingKeeper is a program that replaces the keeper: it waits until it may go on, and then
// becomes the keeper.
func (p *place) waitingKeeper() (config string) {
	p.t.Helper()
	path := p.write("keeper", fmt.Sprintf("#!/bin/sh\n: >%[1]s/arrived\nwhile ! [ -e %[1]s/open ]; do sleep 0.05; done\nexec %[2]s/bursar-keeper \"$@\"\n", p.dir, programs))
	if err := os.Chmod(path, 0o700); err != nil {
		p.t.Fatal(err)
	}
	return "  cgroups: none\n  keeper: " + path + "\n"
}

// A Launch that is under way when its agent ends, at any point, is either done or not: there is
// never an engine without an allocation, and no allocation without an engine after its reservation
// is over.
func TestLaunchIsUnderWayWhenTheAgentEnds(t *testing.T) {
	t.Parallel()
	for _, end := range []struct {
		name   string
		signal syscall.Signal
	}{{"killed", syscall.SIGKILL}, {"upgraded", syscall.SIGTERM}} {
		for _, point := range []string{"before its keeper starts", "before it is confirmed"} {
			t.Run(end.name+" "+point, func(t *testing.T) {
				t.Parallel()
				p := newPlace(t, settings{})
				p.write("agent.yaml", p.agentConfig(p.socket, p.state(), "  logDir: "+filepath.Join(p.dir, "logs")+"\n"+p.waitingKeeper()))
				p.startCoordinator()
				p.startAgent()
				e := p.prepare("flying")
				e.id = p.allocate(e.labels()).GetId()
				answered := make(chan error, 1)
				ctx, cancel := context.WithCancel(t.Context())
				defer cancel()
				go func() { answered <- p.launch(ctx, e) }()
				p.awaitFile("arrived")
				if point == "before it is confirmed" {
					p.coordinator.Signal(syscall.SIGSTOP)
					p.letKeeperGoOn()
					e.awaitHeld()
				}
				p.agent.Signal(end.signal)
				<-p.agent.Ended()
				cancel() // its caller would go on asking
				p.coordinator.Signal(syscall.SIGCONT)
				if err := <-answered; err == nil {
					t.Error("it was answered that the engine runs")
				}
				p.letKeeperGoOn()
				p.upgrade()
				p.startAgent()
				p.nothingFlies(e)
			})
		}
	}
}

// nothingFlies waits until an engine that was being launched runs with its allocation, or is gone,
// and can be launched or released.
func (p *place) nothingFlies(e *engine) {
	p.t.Helper()
	var runs bool
	var a *bursarv1.Allocation
	eventually(p.t, "the launch is done or not", func() error {
		a, runs = p.read(e.id), e.saidPid() != 0 && proc.Alive(e.saidPid())
		if runs && e.times("SIGTERM") > 0 { // its keeper is about to end it
			return errNotYet
		}
		if a.GetState() == active && !runs || a.GetState() != active && runs {
			return fmt.Errorf("runs: %v, its allocation is %v", runs, a)
		}
		return nil
	})
	p.t.Logf("the engine runs: %v; its allocation is %s (%s)", runs, a.GetState(), a.GetReason())
	var want []*engine
	if a.GetState() == reserved { // the caller asks again, as it got no answer
		if err := os.Remove(e.path + ".said"); err != nil && !errors.Is(err, os.ErrNotExist) {
			p.t.Fatal(err)
		}
		if err := p.launch(p.t.Context(), e); err != nil {
			p.t.Fatal(err)
		}
		e.awaitStart()
		runs = true
	}
	if runs {
		e.pid = e.saidPid()
		want = []*engine{e}
	}
	p.right(want)
	always(p.t, 2*tick, "later", func() error {
		if all := e.processes(); len(all) != len(want) {
			return fmt.Errorf("processes %d of the engine, want %d", all, len(want))
		}
		return undisturbed(want)
	})
}

// launch asks the agent to start an engine that has a reservation.
func (p *place) launch(ctx context.Context, e *engine) error {
	_, err := p.local.Engines().Launch(ctx, &bursarv1.LaunchRequest{
		Id: e.id, Command: []string{os.Args[0]}, Environment: map[string]string{engineVariable: e.path},
	})
	return err
}

// awaitHeld waits until its process is there, which its keeper holds until it is confirmed.
func (e *engine) awaitHeld() {
	e.p.t.Helper()
	eventually(e.p.t, "engine "+e.name+" is held", func() error {
		if len(e.processes()) == 0 {
			return errors.New("it has no process")
		}
		return nil
	})
	if e.saidPid() != 0 {
		e.p.t.Errorf("engine %s begins before it is confirmed", e.name)
	}
}

func (p *place) letKeeperGoOn() { p.write("open", "") }

func (p *place) awaitFile(name string) {
	p.t.Helper()
	eventually(p.t, name+" is there", func() error {
		_, err := os.Stat(filepath.Join(p.dir, name))
		return err
	})
}
