package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"syscall"
	"time"

	"github.com/bursar/bursar/bench/performance"
)

// peer is a scheduler of another project, in a separate process. Its orders and answers are the
// Order and the Answer of bench/peers. That is a separate module, so that the dependencies of a
// peer are not ours.
type peer struct {
	*child

	name, version string
}

// peerOrder has exactly one of its fields.
type peerOrder struct {
	Open   *peerCluster `json:",omitempty"`
	Wait   *peerBatch   `json:",omitempty"`
	Closed *peerClosed  `json:",omitempty"`
	Burst  *peerBatch   `json:",omitempty"`
}

type peerCluster struct {
	Hosts  int
	Host   peerQuantities
	Queues []peerQueue
	Apps   []peerApp
}

type peerQuantities struct {
	Memory, CPU int64
}

type peerQueue struct {
	Name           string
	Limit, PerUser peerQuantities
}

type peerApp struct {
	Queue, User string
}

type peerClosed struct {
	Clients int
	Lasts   time.Duration
	Request peerQuantities
}

type peerBatch struct {
	From, Apps int
	Requests   int
	Request    peerQuantities
	Sizes      int
	Within     time.Duration
}

type peerAnswer struct {
	Version  string
	Pairs    int
	Took     time.Duration
	P50, P99 float64
	Err      string
}

// startPeer starts a peer with a cluster. The peer's files are in the directory of this run,
// because a killed peer leaves them.
func (r *run) startPeer(ctx context.Context, name string, cluster *peerCluster) (*peer, error) {
	command := exec.CommandContext(ctx, r.peers[name]) //nolint:gosec // what the caller of this program names
	command.Env = append(os.Environ(), "TMPDIR="+r.dir)
	c, err := r.spawn(command)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", name, err)
	}
	p := &peer{child: c, name: name}
	a, err := p.do(peerOrder{Open: cluster})
	if err != nil {
		return nil, errors.Join(err, p.stop())
	}
	p.version = a.Version
	return p, nil
}

func (p *peer) do(o peerOrder) (a peerAnswer, err error) {
	err = p.orders.Encode(o)
	if err == nil {
		err = p.answers.Decode(&a)
	}
	if err != nil { // it may have ended before it read the order
		return a, fmt.Errorf("%s: no answer, see what it printed: %w", p.name, err)
	}
	if a.Err != "" {
		return a, fmt.Errorf("%s: %s", p.name, a.Err)
	}
	return a, nil
}

// turn gives the peer an order, between two pauses, so that background work of a peer disturbs no
// other turn.
func (p *peer) turn(o peerOrder) (performance.Turn, error) {
	if err := p.command.Process.Signal(syscall.SIGCONT); err != nil {
		return performance.Turn{}, fmt.Errorf("%s: %w", p.name, err)
	}
	before, err := cpuTimeOf(p.command.Process.Pid)
	if err != nil {
		return performance.Turn{}, err
	}
	a, err := p.do(o)
	if err != nil {
		return performance.Turn{}, err
	}
	after, err := cpuTimeOf(p.command.Process.Pid)
	if err != nil {
		return performance.Turn{}, err
	}
	turn, pairs := performance.Turn{P50: a.P50, P99: a.P99}, a.Pairs
	if b := o.Burst; b != nil && pairs < b.Apps*b.Requests {
		pairs = b.Apps * b.Requests
		turn.Cut, turn.Granted = true, float64(a.Pairs)/float64(pairs)
	}
	turn.Rate, turn.CPU = float64(pairs)/a.Took.Seconds(), each(after-before, pairs)
	return turn, p.pause()
}

// each returns the time per pair, in microseconds.
func each(took time.Duration, pairs int) float64 {
	return float64(took.Nanoseconds()) / 1000 / float64(max(1, pairs))
}

func (p *peer) pause() error {
	if err := p.command.Process.Signal(syscall.SIGSTOP); err != nil {
		return fmt.Errorf("%s: %w", p.name, err)
	}
	return nil
}

// end kills a peer that has no further turn; its remaining work does not matter.
func (p *peer) end() error {
	var killed *exec.ExitError
	err := errors.Join(p.command.Process.Kill(), p.in.Close())
	if waited := p.command.Wait(); !errors.As(waited, &killed) {
		err = errors.Join(err, waited)
	}
	return err
}

// stop ends a peer, paused or not.
func (p *peer) stop() error {
	return errors.Join(p.command.Process.Signal(syscall.SIGCONT), p.child.stop())
}
