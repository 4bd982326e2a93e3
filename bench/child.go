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

// order is the next task of a child. The first one sets up its role.
type order struct {
	Workload string
	Hosts    int
	Waiting  int
	Live     int
	Short    bool

	Kind  string // of requests of the suite conditions
	Pairs int    // number of pairs to make
	// Echo: serve an echo on this address or socket, with Reply as its answer.
	Echo  string
	Reply []byte

	Queues []int // numbers of queues; serve a YARN cluster for each

	Attack string // kind of attackers, which call the first of Servers

	Bytes int64 // number of bytes to send to the first of Servers; 0: serve a relay

	Watchers int  // number of watches of the first of Servers
	PerHost  bool // one host for each watch, in order

	Servers []string      // the coordinators of Hosts simulated agents
	Consul  string        // or the Consul that knows them
	Beat    time.Duration // how long the agents report
	Ride    bool          // report until the next order
	// Connections is the number of connections that all agents share; 0: each has its own. Own is
	// the number of agents that have one in addition. With OverOwn only those report, over these
	// connections, once per Every.
	Connections, Own int
	OverOwn          bool
	Every            time.Duration
	Quiet            bool // engines keep their usage
	Aside            bool // report to Echo instead of the coordinator
}

// answer is the result of an order.
type answer struct {
	CPU     time.Duration // of the child's process
	Address string
	Err     string

	Engines  int     // engines known to the agents
	Reports  int     // answered reports; of attackers, their calls
	P50, P99 float64 // durations of these, in microseconds

	Polls []poll // polls since the last order

	Read int64 // bytes read by watchers

	Seconds []second // seconds of a ride
	Failed  int      // failed reports
}

// serveChild executes the orders of its parent until there are no more.
func serveChild(ctx context.Context, role string, in io.Reader, out io.Writer) error {
	var do func(context.Context, order) (answer, error)
	switch role {
	case "ledger":
		do = (&ledgerChild{}).do
	case "conditions":
		do = (&conditionsChild{}).do
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
	first   answer // answer to the first order
}

// startChild starts a child and gives it its first order.
func (r *run) startChild(ctx context.Context, role string, first order, environment ...string) (*child, error) {
	self, err := os.Executable()
	if err != nil {
		return nil, fmt.Errorf("this program: %w", err)
	}
	return r.startChildOf(ctx, self, role, first, environment...)
}

// startChildOf starts a child that runs this program or another version of it.
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

// spawn starts a program that executes orders and answers them.
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

// stop closes the input of the child, which ends it, and waits for it.
func (c *child) stop() error {
	err := c.in.Close()
	return errors.Join(err, c.command.Wait())
}
