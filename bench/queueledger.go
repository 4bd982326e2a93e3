package main

import (
	"bytes"
	"fmt"
	"runtime"
	"strconv"
	"time"

	"github.com/bursar/bursar/coordinator/ledger"
	"github.com/bursar/bursar/providers"
	"github.com/bursar/bursar/resource"
)

// yarnBench returns the name of the cluster of the queues suite.
func yarnBench() ledger.ClusterName { return ledger.ClusterName{Kind: "yarn", Cluster: "bench"} }

// queueLedger is a filled ledger with a cluster that has queues.
type queueLedger struct {
	*filledLedger

	queues       [2][]ledger.QueueReport // two answers with different figures
	applications []ledger.ApplicationReport
	reports      int
}

// newQueueLedger reads the cluster's queues once, and returns the cost of that for the ledger.
func newQueueLedger(w *workload, queues, hosts int) (b *queueLedger, first cost, err error) {
	own, err := newFilledLedger(w, hosts)
	if err != nil {
		return nil, cost{}, err
	}
	b = &queueLedger{filledLedger: own}
	for parity := range b.queues {
		read, err := decode(bytes.NewReader(yarnCluster{queues: queues, parity: parity}.answer()))
		if err != nil {
			return nil, cost{}, err
		}
		b.queues[parity] = queueReports(read)
	}
	if err := b.ledger.PutProvider(b.now, ledger.ProviderRecord{ClusterName: yarnBench()}); err != nil {
		return nil, cost{}, err
	}
	b.drain()
	first, err = b.report()
	return b, first, err
}

// queueReports converts a provider's answer like a coordinator.
func queueReports(read []providers.Queue) []ledger.QueueReport {
	reports := make([]ledger.QueueReport, 0, len(read))
	for i := range read {
		q := &read[i]
		reports = append(reports, ledger.QueueReport{
			Path: q.Path, Parent: q.Parent, Partition: q.Partition, Limit: q.Limit, Used: q.Used, Guaranteed: q.Guaranteed,
			State: q.State, Closed: q.Closed, CreatesChildren: q.CreatesChildren, DefaultPartition: q.DefaultPartition,
			AbsoluteCapacity: q.AbsoluteCapacity, AbsoluteMaxCapacity: q.AbsoluteMaxCapacity,
			Applications: q.Applications, Pending: q.Pending, Active: q.Active, MaxApplications: q.MaxApplications,
		})
	}
	return reports
}

// report gives the ledger one of the two answers, in turn.
func (b *queueLedger) report() (cost, error) {
	b.now = b.now.Add(time.Second)
	b.reports++
	r := ledger.ClusterReport{
		ClusterName: yarnBench(), Asked: b.now, GoodFor: never, Settle: time.Minute, Incarnation: "one",
		Queues: b.queues[b.reports%2], Applications: b.applications,
	}
	took, err := costOf(func() error {
		if err := b.ledger.ReportCluster(b.now, r); err != nil {
			return err
		}
		for at, due := b.ledger.NextTimer(); due && at <= b.now; at, due = b.ledger.NextTimer() { // the remaining steps
			b.ledger.Advance(b.now)
		}
		return nil
	})
	b.drain()
	return took, err
}

// partsIn returns parts of requests in the leaves of a cluster, one for each leaf.
func (w *workload) partsIn(queues int) ([]resource.External, error) {
	v, err := w.Part.vector()
	if err != nil {
		return nil, fmt.Errorf("workload: %w", err)
	}
	var list []resource.External
	for _, path := range (yarnCluster{queues: queues}).leaves() {
		list = append(list, resource.External{
			Address: resource.Address{Kind: yarnBench().Kind, Cluster: yarnBench().Cluster, Path: path}, Vector: v,
		})
	}
	return list, nil
}

// run makes n allocations, spread over the leaves, each with an application that the cluster has
// seen.
func (b *queueLedger) run(n int, parts []resource.External) error {
	b.parts = parts
	for i := range n {
		part := parts[b.next%len(parts)]
		id, err := b.allocate(b.command())
		if err != nil {
			return err
		}
		application := "application_1700000000000_" + strconv.Itoa(1_000_000+i)
		if _, err := b.ledger.Confirm(b.now, ledger.ConfirmCommand{
			Actor: b.actor, ID: id, Process: ledger.Process{PID: int32(i + 2), StartTime: 1, BootID: "boot"}, ApplicationIDs: []string{application},
		}); err != nil {
			return err
		}
		b.done()
		b.applications = append(b.applications, ledger.ApplicationReport{
			ID: application, Known: true, Queue: part.Path, Allocated: map[string]resource.Vector{"": part.Vector},
		})
	}
	return nil
}

// takesReports measures the cost of a cluster's report for an otherwise idle ledger.
func (r *run) takesReports(w *workload) error {
	var small float64 // with the fewest queues, per queue
	for _, queues := range w.Queues {
		parts, err := w.partsIn(queues)
		if err != nil {
			return err
		}
		var alone []float64
		for _, live := range []int{0, r.size(w.Live)} {
			b, first, err := newQueueLedger(w, queues, r.size(w.Hosts))
			if err != nil {
				return err
			}
			if err := b.run(live, parts); err != nil {
				return err
			}
			var took, asked costs
			runtime.GC()
			for round := range r.rounds(turnsOf(w, queues)) {
				named, err := costOf(func() error {
					if n := len(b.ledger.Applications(yarnBench())); n != live {
						return fmt.Errorf("%d applications: want %d", n, live)
					}
					return nil
				})
				if err != nil {
					return err
				}
				of, err := b.report()
				if err != nil {
					return err
				}
				if round > 0 {
					took.add(of)
					asked.add(named)
				}
			}
			if err := b.audit(); err != nil {
				return err
			}
			name := fmt.Sprintf("queues/report-%d", queues)
			if live == 0 {
				alone = took.cpu
				r.line(name+"-first", first.cpu.Seconds()*1e3, "ms", 0)
				each := 1e6 * median(took.cpu) / float64(queues)
				if small == 0 {
					small = each
				}
				r.line(name+"-each", each, "ns/queue", each/small)
			} else {
				name += "-live"
				r.line(name+"-names", median(asked.cpu), "ms", 0)
			}
			r.line(name, median(took.cpu), "ms", median(ratios(took.cpu, alone)))
			r.line(name+"-allocated", median(took.bytes)/1e6, "MB", 0)
		}
	}
	return nil
}

// ledgerParts compares pairs of requests that have a part in a queue with pairs that have none, in
// the ledger alone.
func (r *run) ledgerParts(w *workload) error {
	queues := w.Polled[0]
	parts, err := w.partsIn(queues)
	if err != nil {
		return err
	}
	var sides [2]*queueLedger // with parts, and without
	for i := range sides {
		if sides[i], _, err = newQueueLedger(w, queues, r.size(w.Hosts)); err != nil {
			return err
		}
		if i == 0 {
			sides[i].parts = parts
		}
		if err := sides[i].fill(r.size(w.Live)); err != nil {
			return err
		}
	}
	var rates [2][]float64
	for round := range r.rounds(w.Rounds) {
		for i, b := range sides {
			before, err := cpuTime()
			if err != nil {
				return err
			}
			if err := b.pairs(r.size(w.Window)); err != nil {
				return err
			}
			after, err := cpuTime()
			if err != nil {
				return err
			}
			if round > 0 {
				rates[i] = append(rates[i], float64(r.size(w.Window))/(after-before).Seconds())
			}
		}
	}
	for _, b := range sides {
		if err := b.audit(); err != nil {
			return err
		}
	}
	r.line("queues/ledger-parts", median(rates[0]), "pairs/s", median(ratios(rates[0], rates[1])))
	r.line("queues/ledger-plain", median(rates[1]), "pairs/s", 0)
	return nil
}
