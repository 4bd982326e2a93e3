package main

import (
	"context"
	"log/slog"
	"time"

	"connectrpc.com/connect"
	"github.com/cenkalti/backoff/v4"

	"github.com/bursar/bursar/internal/discovery"
	"github.com/bursar/bursar/internal/discovery/consul"
)

// The values are those of the agent.
const (
	reportTimeout    = 10 * time.Second
	reportRetryFirst = 100 * time.Millisecond
	reportRetryLast  = 2 * time.Second
	searchSpread     = time.Second
	searchShare      = 5
	reportGap        = 20 * time.Millisecond
)

// find returns a finder of the coordinators in a list or in Consul. All agents of the fleet share
// one watch of Consul.
func find(ctx context.Context, o order) (discovery.Finder, error) {
	if o.Consul == "" {
		return discovery.Static(o.Servers)
	}
	reached, err := consul.New(consul.Config{Address: o.Consul}, slog.New(slog.DiscardHandler))
	if err != nil {
		return nil, err
	}
	finder := consul.NewFinder(reached, consul.FinderOptions{Log: slog.New(slog.DiscardHandler)})
	go func() { _ = finder.Run(ctx) }() // until this process ends
	err = await(ctx, time.Millisecond, func(context.Context) error {
		if known, _ := finder.Coordinators(); len(known) == 0 {
			return errNobody
		}
		return nil
	})
	return finder, err
}

// ride reports until ctx ends, also through changes of leader, like the agent: if nobody answers it
// retries with growing delays. Soon after the announcement of a new leader it reports to that one,
// unless that leader has set a time.
func (a *simulated) ride(ctx context.Context, finder discovery.Finder) {
	retry := backoff.NewExponentialBackOff(backoff.WithInitialInterval(reportRetryFirst), backoff.WithMaxInterval(reportRetryLast),
		backoff.WithMultiplier(2), backoff.WithRandomizationFactor(0.5), backoff.WithMaxElapsedTime(0))
	next, leader := time.Now().Add(a.due), ""
	timer := time.NewTimer(a.due)
	defer timer.Stop()
	for {
		known, changed := finder.Coordinators()
		if named := whoLeads(known); named != leader {
			spread := max(searchSpread, a.tracker.Interval()/searchShare)
			soon := time.Now().Add(time.Duration(a.random.Int64N(int64(spread))))
			if leader != "" && named != "" && soon.Before(next) && a.tracker.ResyncAfter() == 0 {
				next = soon
				timer.Reset(time.Until(next))
			}
			if named != "" {
				leader = named
			}
		}
		select {
		case <-ctx.Done():
			return
		case <-changed:
			continue
		case <-timer.C:
		}
		var wait time.Duration
		switch err := a.reportOnce(ctx); {
		case err != nil:
			wait = retry.NextBackOff()
		case a.tracker.Urgent() || a.tracker.Refusing():
			wait = reportGap
		default:
			retry.Reset()
			wait = a.interval() // set by the answer
		}
		next = time.Now().Add(wait)
		timer.Reset(wait)
	}
}

// reportOnce reports within the time limit of one report. If a coordinator does not know the host,
// the next call registers it.
func (a *simulated) reportOnce(ctx context.Context) error {
	defer a.takeLane()()
	ctx, cancel := context.WithTimeout(ctx, reportTimeout)
	defer cancel()
	err := a.report(ctx)
	switch connect.CodeOf(err) { //nolint:exhaustive // the others say nothing about this host
	case connect.CodeNotFound, connect.CodeAborted:
		a.tracker.Resync()
	}
	return err
}

// whoLeads returns the URL of the leader; empty: no leader is known.
func whoLeads(known []discovery.Coordinator) string {
	for _, coordinator := range known {
		if coordinator.Leads {
			return coordinator.URL
		}
	}
	return ""
}
