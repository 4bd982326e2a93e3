package main

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"slices"
	"time"

	"github.com/bursar/bursar/client"
	"github.com/bursar/bursar/internal/identity"
)

// neighbours is the result of one attack. The attackers call the same coordinator as the quiet
// caller, or another one.
type neighbours struct {
	near, far neighbour
	attacks   []float64 // calls per second of the attackers to the same coordinator
	memory    []float64 // growth of that coordinator at the end of a round, in MiB
}

// neighbour has the results of the quiet caller by round, in microseconds.
type neighbour struct {
	p50, p99 []float64
	all      []time.Duration
}

// neighboursSuite measures the effect on a caller of another one that calls as fast as it can.
func neighboursSuite(ctx context.Context, r *run) (err error) {
	w, err := readWorkload("neighbours")
	if err != nil {
		return err
	}
	var servers []*daemon
	for _, name := range []string{"near", "far"} {
		d, err := r.startAttacked(ctx, filepath.Join(r.dir, "neighbours-"+name), w)
		if err != nil {
			return err
		}
		defer func() { err = errors.Join(err, d.stop()) }()
		servers = append(servers, d)
	}
	quiet, err := newCaller(servers[0].address, w, client.WithActor(actorOf("user-0")))
	if err != nil {
		return err
	}
	defer quiet.client.Close()
	for _, attack := range attacks() {
		if !r.attacks.MatchString(attack.name) {
			continue
		}
		n, err := r.attacked(ctx, w, attack.name, quiet, servers)
		if err != nil {
			return fmt.Errorf("%s: %w", attack.name, err)
		}
		name := "neighbours/" + attack.name
		r.line(name+"-p99", median(n.near.p99), "µs", median(ratios(n.near.p99, n.far.p99)))
		r.line(name+"-p50", median(n.near.p50), "µs", median(ratios(n.near.p50, n.far.p50)))
		r.line(name+"-max", percentile(n.near.sorted(), 1), "µs", percentile(n.near.sorted(), 1)/percentile(n.far.sorted(), 1))
		r.line(name+"-memory", median(n.memory), "MiB", 0)
		r.line(name+"-attacks", median(n.attacks), "calls/s", 0)
	}
	return quiet.audit(ctx)
}

// startAttacked starts a coordinator with the hosts and rules of the workload.
func (r *run) startAttacked(ctx context.Context, dir string, w *workload) (*daemon, error) {
	d, err := r.startCoordinator(ctx, dir, never)
	if err != nil {
		return nil, err
	}
	operator, err := client.New(d.address, client.WithoutRetries())
	if err == nil {
		defer operator.Close()
		err = populate(ctx, operator, w)
	}
	if err != nil {
		return nil, errors.Join(err, d.kill())
	}
	return d, nil
}

// actorOf returns a caller that may act as one user.
func actorOf(user string) identity.Actor {
	return identity.Actor{Name: user, Users: []string{user}, Role: identity.Submitter}
}

// attacked measures the quiet caller in rounds, with attackers of one kind at its coordinator and
// at the other one in turn.
func (r *run) attacked(ctx context.Context, w *workload, attack string, quiet *caller, servers []*daemon) (*neighbours, error) {
	n := new(neighbours)
	idle, err := memoryOf(servers[0].pid())
	if err != nil {
		return nil, err
	}
	for range r.rounds(w.Rounds) {
		for i, side := range []*neighbour{&n.near, &n.far} {
			var memory int64
			calls, err := r.attackedRound(ctx, attack, servers[i].address, func() error {
				if err := side.round(ctx, quiet, r.size(w.Window)); err != nil {
					return err
				}
				memory, err = memoryOf(servers[i].pid())
				return err
			})
			if err != nil {
				return nil, err
			}
			if i == 0 {
				n.attacks = append(n.attacks, calls)
				n.memory = append(n.memory, float64(memory-idle)/(1<<20))
			}
		}
	}
	return n, nil
}

// attackedRound measures while attackers of a new process call a server. It returns their calls per
// second.
func (r *run) attackedRound(ctx context.Context, attack, server string, measure func() error) (calls float64, err error) {
	attackers, err := r.startChild(ctx, "attackers", order{Attack: attack, Servers: []string{server}, Short: r.short})
	if err != nil {
		return 0, err
	}
	defer func() { err = errors.Join(err, attackers.stop()) }()
	began := time.Now()
	if err := measure(); err != nil {
		return 0, err
	}
	took := time.Since(began)
	a, err := attackers.do(order{})
	return float64(a.Reports) / took.Seconds(), err
}

// round makes pairs of calls, one after the other.
func (n *neighbour) round(ctx context.Context, quiet *caller, pairs int) error {
	turn, err := quiet.turn(ctx, 1, pairs, 0)
	if err != nil {
		return err
	}
	n.p50 = append(n.p50, percentile(turn.latencies, 0.5))
	n.p99 = append(n.p99, percentile(turn.latencies, 0.99))
	n.all = append(n.all, turn.latencies...)
	return nil
}

func (n *neighbour) sorted() []time.Duration {
	slices.Sort(n.all)
	return n.all
}
