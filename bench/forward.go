package main

import (
	"context"
	"errors"
	"fmt"
)

// forwardSuite compares calls that a standby forwards with direct calls to the leader.
func forwardSuite(ctx context.Context, r *run) (err error) {
	w, err := readWorkload("forward")
	if err != nil {
		return err
	}
	t, err := r.startTeam(ctx, w.Members, setup{interval: never}, func(string) error { return nil })
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, t.stop()) }()
	leader, _, err := t.leader(ctx, nil)
	if err != nil {
		return err
	}
	standby := t.standby(leader)
	direct, err := newCaller(leader.address, w)
	if err != nil {
		return err
	}
	defer direct.client.Close()
	passed, err := newCaller(standby.address, w)
	if err != nil {
		return err
	}
	defer passed.client.Close()
	if err := populate(ctx, direct.client, w); err != nil {
		return err
	}
	for _, clients := range w.Clients {
		before, err := cpuTimeOf(standby.pid())
		if err != nil {
			return err
		}
		began := passed.next.Load()
		a, b, err := contest{passed, direct}.run(ctx, r.rounds(w.Rounds), clients, 0, r.period(w.Duration))
		if err != nil {
			return err
		}
		after, err := cpuTimeOf(standby.pid())
		if err != nil {
			return err
		}
		name := fmt.Sprintf("forward/%d", clients)
		r.line(name+"-calls", median(a.rates), "calls/s", median(ratios(a.rates, b.rates)))
		r.line(name+"-p50", median(a.p50), "µs", median(ratios(a.p50, b.p50)))
		r.line(name+"-p99", median(a.p99), "µs", median(ratios(a.p99, b.p99)))
		r.line(name+"-direct-calls", median(b.rates), "calls/s", 0)
		r.line(name+"-direct-p50", median(b.p50), "µs", 0)
		r.line(name+"-standby-cpu", (after-before).Seconds()*1e6/float64(2*(passed.next.Load()-began)), "µs/call", 0)
	}
	if now, _, err := t.leader(ctx, nil); err != nil || now != leader {
		return errors.Join(errors.New("the lead changed hands while it was measured"), err)
	}
	return direct.audit(ctx)
}
