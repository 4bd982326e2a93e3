package main

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/bursar/bursar/bench/performance"
)

// starting bounds the time for a peer to start and to end, in addition to its turn.
const starting = 3 * time.Minute

// bursts runs workloads/burst.yaml. Each burst needs an empty cluster, so peers are restarted for
// each.
func (c *comparison) bursts(ctx context.Context) error {
	w, err := readWorkload("burst")
	if err != nil {
		return err
	}
	for _, shape := range w.Bursts {
		used := make(map[string]time.Duration)
		for range c.rounds(w.Rounds) {
			if err := c.burst(ctx, w, shape, used); err != nil {
				return err
			}
		}
		if err := c.save(); err != nil {
			return err
		}
	}
	return nil
}

// burst runs one round of a shape. A peer that has used half of its time for the shape has no
// further turn.
func (c *comparison) burst(ctx context.Context, w *workload, shape burst, used map[string]time.Duration) error {
	requests := c.size(shape.Requests)
	at := fmt.Sprintf("%dx%dx%d", shape.Hosts, shape.Groups, shape.Requests)
	turn, err := oneBurst(w, shape, requests)
	if err != nil {
		return err
	}
	c.results.Add(performance.Burst, at, performance.Ledger, turn)
	request, err := w.request()
	if err != nil {
		return err
	}
	cluster, err := w.cluster(shape.Hosts, burstApps(shape.Groups))
	if err != nil {
		return err
	}
	batch := &peerBatch{
		Apps: shape.Groups, Requests: requests, Request: peerQuantities{request.Memory(), request.CPU()}, Sizes: 1, Within: shape.Within,
	}
	for _, name := range c.peerList() {
		if used[name] > shape.Within/2 {
			continue
		}
		turn, took, err := c.peerBurst(ctx, name, cluster, batch)
		if err != nil {
			return err
		}
		used[name] += took
		c.results.Add(performance.Burst, at, name, turn)
	}
	return nil
}

// peerBurst starts a peer for one burst, and ends it.
func (c *comparison) peerBurst(ctx context.Context, name string, cluster *peerCluster, batch *peerBatch) (performance.Turn, time.Duration, error) {
	ctx, cancel := context.WithTimeout(ctx, starting+batch.Within)
	defer cancel()
	peers, err := c.startPeers(ctx, []string{name}, cluster)
	if err != nil {
		return performance.Turn{}, 0, err
	}
	began := time.Now()
	turn, err := peers[0].turn(peerOrder{Burst: batch})
	took := time.Since(began)
	if turn.Cut {
		return turn, took, errors.Join(err, peers[0].end())
	}
	return turn, took, errors.Join(err, peers[0].stop())
}
