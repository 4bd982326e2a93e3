package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/bursar/bursar/client"
	"github.com/bursar/bursar/internal/access"
	"github.com/bursar/bursar/internal/identity"
	bursarv1 "github.com/bursar/bursar/proto/bursar/v1"
	"github.com/bursar/bursar/proto/convert"
)

// remoteSuite compares an engine that is started remotely with one that is launched on its host,
// and the stream of its output with a raw one, and measures the cost of attached agents for a
// leader.
func remoteSuite(ctx context.Context, r *run) error {
	w, err := readWorkload("remote")
	if err != nil {
		return err
	}
	return errors.Join(r.remoteStarts(ctx, w), r.attachedAgents(ctx, w))
}

// remoteAccount is the account of the engines.
const remoteAccount = "nobody"

// starter starts engines in both ways.
type starter struct {
	agent, coordinator *client.Client
	workload           *workload
	next               int
}

// startRemote starts a coordinator and an agent that starts engines of remote callers, and returns
// clients of both. stop ends all of it.
func (r *run) startRemote(ctx context.Context, w *workload, dir string) (s *starter, stop func() error, err error) {
	var ends []func() error
	stop = func() (err error) {
		for _, end := range slices.Backward(ends) {
			err = errors.Join(err, end())
		}
		return err
	}
	defer func() {
		if err != nil {
			err = errors.Join(err, stop())
		}
	}()
	closing := func(c *client.Client) {
		ends = append(ends, func() error {
			c.Close()
			return nil
		})
	}
	tokens, known, err := identities(dir)
	if err != nil {
		return nil, stop, err
	}
	coordinator, err := r.startAlone(ctx, setup{dir: dir, interval: time.Second, known: known, output: "8GiB"})
	if err != nil {
		return nil, stop, err
	}
	ends = append(ends, coordinator.stop)
	as := func(name string) (*client.Client, error) {
		return client.New(coordinator.address, client.WithToken(func() (string, error) { return tokens[name], nil }))
	}
	operator, err := as("operator")
	if err != nil {
		return nil, stop, err
	}
	defer operator.Close()
	discovery := fmt.Sprintf("coordinators: [%q]\ntokenFile: %q\nengines: {cgroups: none, remote: {accounts: [%s]}}",
		"http://"+coordinator.address, filepath.Join(dir, "agent.token"), remoteAccount)
	agent, err := r.startAgent(ctx, dir, discovery, operator, time.Second)
	if err != nil {
		return nil, stop, err
	}
	ends = append(ends, agent.stop)
	s = &starter{workload: w}
	if s.agent, err = client.New(agent.address); err != nil {
		return nil, stop, err
	}
	closing(s.agent)
	if s.coordinator, err = as("submitter"); err != nil {
		return nil, stop, err
	}
	closing(s.coordinator)
	return s, stop, nil
}

// remoteStarts measures both ways in turn.
func (r *run) remoteStarts(ctx context.Context, w *workload) (err error) {
	s, stop, err := r.startRemote(ctx, w, filepath.Join(r.dir, "remote"))
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, stop()) }()
	var here, elsewhere, share []float64
	for round := range r.rounds(w.Rounds) {
		local, err := s.turn(ctx, r.size(w.Window), s.launch)
		if err != nil {
			return fmt.Errorf("launch: %w", err)
		}
		remote, err := s.turn(ctx, r.size(w.Window), s.start)
		if err != nil {
			return fmt.Errorf("start: %w", err)
		}
		if round > 0 || r.short {
			here, elsewhere, share = append(here, local), append(elsewhere, remote), append(share, remote/local)
		}
	}
	r.line("remote/launch-p50", median(here), "µs", 0)
	r.line("remote/start-p50", median(elsewhere), "µs", median(share))
	return r.remoteOutput(ctx, s, w)
}

// identities makes a file of identities in a directory, with a token for each, and a file with the
// token of the agent.
func identities(dir string) (tokens map[string]string, file string, err error) {
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return nil, "", fmt.Errorf("identities: %w", err)
	}
	tokens = make(map[string]string)
	var text strings.Builder
	text.WriteString("identities:\n")
	for name, more := range map[string]string{
		"operator": "role: operator, users: ['*']", "agent": "role: agent, host: bench", "submitter": "role: submitter, users: [user-0], mayLaunch: [" + remoteAccount + "]",
	} {
		tokens[name] = access.NewToken()
		fmt.Fprintf(&text, "- {name: %s, tokenHash: '%s', %s}\n", name, access.Hash(tokens[name]), more)
	}
	file = filepath.Join(dir, "identities.yaml")
	return tokens, file, errors.Join(
		os.WriteFile(file, []byte(text.String()), 0o600), os.WriteFile(filepath.Join(dir, "agent.token"), []byte(tokens["agent"]), 0o600),
	)
}

// turn starts engines, each after the end of the previous one, and returns the median time in µs.
func (s *starter) turn(ctx context.Context, engines int, begin func(context.Context) (id string, err error)) (float64, error) {
	var times stopwatch
	for range engines {
		s.next++
		began := time.Now()
		id, err := begin(ctx)
		times.add(time.Since(began), err)
		if err != nil {
			break
		}
		if _, err := s.coordinator.Engines().Wait(ctx, &bursarv1.WaitRequest{Id: id}); err != nil {
			return 0, fmt.Errorf("the end of %s: %w", id, err)
		}
	}
	took, err := times.sorted()
	return percentile(took, 0.5), err
}

func (s *starter) request() (*bursarv1.AllocateRequest, error) {
	amount, err := s.workload.request()
	if err != nil {
		return nil, err
	}
	return &bursarv1.AllocateRequest{
		RequestId: client.NewRequestID(), Labels: s.workload.labels(s.next), Resource: convert.ResourceToProto(amount),
	}, nil
}

func (s *starter) launch(ctx context.Context) (id string, err error) {
	request, err := s.request()
	if err != nil {
		return "", err
	}
	granted, err := s.agent.Allocations().Allocate(ctx, request)
	if err != nil {
		return "", err
	}
	id = granted.GetAllocation().GetId()
	_, err = s.agent.Engines().Launch(ctx, &bursarv1.LaunchRequest{Id: id, Command: []string{"/bin/true"}, User: remoteAccount, WorkingDirectory: "/"})
	return id, err
}

func (s *starter) start(ctx context.Context) (id string, err error) {
	return s.startCommand(ctx, &bursarv1.LaunchSpec{Command: []string{"/bin/true"}})
}

func (s *starter) startCommand(ctx context.Context, launch *bursarv1.LaunchSpec) (id string, err error) {
	request, err := s.request()
	if err != nil {
		return "", err
	}
	launch.Account, launch.WorkingDirectory = remoteAccount, "/"
	started, err := s.coordinator.Engines().Start(ctx, &bursarv1.StartRequest{Request: request, Launch: launch})
	return started.GetAllocation().GetId(), err
}

// attachedAgents measures the cost of idle streams of orders.
func (r *run) attachedAgents(ctx context.Context, w *workload) (err error) {
	coordinator, err := r.startAttacked(ctx, filepath.Join(r.dir, "attached"), w)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, coordinator.stop()) }()
	var without, with []float64
	for range r.rounds(3) {
		for _, side := range []struct {
			hosts int
			cpu   *[]float64
		}{{0, &without}, {w.Hosts, &with}} {
			percent, err := r.attachedTurn(ctx, coordinator, side.hosts, r.period(w.Duration))
			if err != nil {
				return err
			}
			*side.cpu = append(*side.cpu, percent)
		}
	}
	r.line("remote/attached-cpu", max(0, median(with)-median(without)), "% of a core", 0)
	return nil
}

// attachedTurn returns the coordinator's CPU usage in percent of a core with so many attached
// agents.
func (r *run) attachedTurn(ctx context.Context, coordinator *daemon, hosts int, lasts time.Duration) (percent float64, err error) {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	ended := make(chan error, hosts)
	for n := range hosts {
		agents, err := client.New(coordinator.address, client.WithoutRetries(), client.WithActor(client.Actor{
			Name: hostName(n), Host: hostName(n), Role: identity.Agent,
		}))
		if err != nil {
			return 0, err
		}
		defer agents.Close()
		stream, err := agents.Hosts().Attach(ctx, &bursarv1.AttachRequest{HostId: hostName(n), Incarnation: 1})
		if err != nil {
			return 0, fmt.Errorf("attach: %w", err)
		}
		if !stream.Receive() {
			return 0, fmt.Errorf("attach: %w", stream.Err())
		}
		go func() {
			for stream.Receive() {
			}
			ended <- stream.Err()
		}()
	}
	before, err := cpuTimeOf(coordinator.pid())
	if err != nil {
		return 0, err
	}
	began := time.Now()
	select {
	case <-time.After(lasts):
	case err := <-ended:
		return 0, fmt.Errorf("a stream ended by itself: %w", err)
	case <-ctx.Done():
		return 0, ctx.Err()
	}
	after, err := cpuTimeOf(coordinator.pid())
	return 100 * (after - before).Seconds() / time.Since(began).Seconds(), err
}
