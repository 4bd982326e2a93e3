package main

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"syscall"
	"time"
)

// order is what a child is to do next. The first one says which role it has.
type order struct {
	Workload string
	Hosts    int
	Waiting  int
	Live     int
	Short    bool

	Pairs int // make so many
	// Echo: serve an echo on this address or socket, with Reply as its answer.
	Echo  string
	Reply []byte

	Queues []int // serve YARN clusters with so many

	Attack string // be attackers of this kind, of the first of Servers

	Bytes int64 // send so many to the first of Servers; 0: serve a relay

	Watchers int  // watch the first of Servers, so many times
	PerHost  bool // each one host, in order

	Servers []string      // the coordinators of Hosts simulated agents
	Consul  string        // or who knows
	Beat    time.Duration // let them report for as long
	Ride    bool          // let them report for good
	// Connections is how many connections all agents share; 0: each has its own. Own is how many
	// have one in addition, and OverOwn lets those alone report, over these, each once in Every.
	Connections, Own int
	OverOwn          bool
	Every            time.Duration
	Quiet            bool // engines use what they used before
	Aside            bool // report to Echo in place of the coordinator
}

// answer is the result.
type answer struct {
	CPU     time.Duration // of the child's process
	Address string
	Err     string

	Engines  int     // that the agents know of
	Reports  int     // that were answered; of attackers, their calls
	P50, P99 float64 // how long they took, in microseconds

	Polls []poll // since they were last asked for

	Read int64 // bytes that watchers have read

	Seconds []second // while agents rode
	Failed  int      // reports
}

// serveChild does what its parent orders, until there are no more orders.
func serveChild(ctx context.Context, role string, in io.Reader, out io.Writer) error {
	var do func(context.Context, order) (answer, error)
	switch role {
	case "ledger":
		do = (&ledgerChild{}).do
	case "fleet":
		do = (&fleetChild{}).do
	case "scale":
		do = (&scaleChild{}).do
	case "resourcemanager":
		do = (&resourceManager{}).do
	case "attackers":
		do = (&attackersChild{}).do
	case "watchers":
		do = (&watchersChild{}).do
	case "echo":
		do = (&echoChild{}).do
	case "relay":
		do = (&relayChild{}).do
	default:
		return fmt.Errorf("no such child: %q", role)
	}
	orders, answers := json.NewDecoder(in), json.NewEncoder(out)
	for {
		var o order
		err := orders.Decode(&o)
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			return fmt.Errorf("read an order: %w", err)
		}
		a, err := do(ctx, o)
		if err != nil {
			a.Err = err.Error()
		}
		if err := answers.Encode(a); err != nil {
			return fmt.Errorf("write an answer: %w", err)
		}
	}
}

// child is another process that takes orders: this program again, or a peer.
type child struct {
	command *exec.Cmd
	in      io.WriteCloser
	orders  *json.Encoder
	answers *json.Decoder
	first   answer // to the first order
}

// startChild starts one and gives it its first order.
func (r *run) startChild(ctx context.Context, role string, first order, environment ...string) (*child, error) {
	self, err := os.Executable()
	if err != nil {
		return nil, fmt.Errorf("this program: %w", err)
	}
	return r.startChildOf(ctx, self, role, first, environment...)
}

// startChildOf starts a child of this program, or of that of another version.
func (r *run) startChildOf(ctx context.Context, program, role string, first order, environment ...string) (*child, error) {
	command := exec.CommandContext(ctx, program, "-child", role) //nolint:gosec // what the caller of this program names
	command.Env = append(os.Environ(), environment...)
	c, err := r.spawn(command)
	if err != nil {
		return nil, err
	}
	a, err := c.do(first)
	if err != nil {
		return nil, errors.Join(err, c.stop())
	}
	c.first = a
	return c, nil
}

// spawn starts a program that takes orders and answers them.
func (r *run) spawn(command *exec.Cmd) (*child, error) {
	command.Stderr = r.log
	command.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	in, err := command.StdinPipe()
	if err != nil {
		return nil, fmt.Errorf("child: %w", err)
	}
	out, err := command.StdoutPipe()
	if err != nil {
		return nil, fmt.Errorf("child: %w", err)
	}
	if err := command.Start(); err != nil {
		return nil, fmt.Errorf("child: %w", err)
	}
	return &child{command: command, in: in, orders: json.NewEncoder(in), answers: json.NewDecoder(bufio.NewReader(out))}, nil
}

func (c *child) do(o order) (answer, error) {
	var a answer
	if err := c.orders.Encode(o); err != nil {
		return a, fmt.Errorf("child: %w", err)
	}
	if err := c.answers.Decode(&a); err != nil {
		return a, fmt.Errorf("child: %w", err)
	}
	if a.Err != "" {
		return a, fmt.Errorf("child: %s", a.Err)
	}
	return a, nil
}

// stop ends the child: there are no more orders.
func (c *child) stop() error {
	err := c.in.Close()
	return errors.Join(err, c.command.Wait())
}
