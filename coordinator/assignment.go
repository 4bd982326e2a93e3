package coordinator

import (
	"context"
	"errors"

	"github.com/bursar/bursar/coordinator/ledger"
)

// assignment is a cluster that is to be read, and under what it was so: in which leadership, and after how many changes of its provider.
type assignment struct {
	ledger.ProviderRecord

	epoch, turn uint64
}

// same reports whether an assignment has not changed.
func (a *assignment) same(b *assignment) bool {
	return a.ClusterName == b.ClusterName && a.epoch == b.epoch && a.turn == b.turn
}

// errSuperseded ends a reading whose leadership is over, or whose provider has changed: it may be of another cluster.
var errSuperseded = errors.New("the provider has changed, or the leadership")

// providerChange is the command that changes a provider.
type providerChange struct {
	pending

	name   ledger.ClusterName
	change func(l *ledger.Ledger, now ledger.Instant) error
	told   func() // of every answer: whoever reads the cluster is not to any more, as it was
	err    error
}

func (p *providerChange) answer(err error) {
	p.pending.answer(err)
	p.told()
}

func (p *providerChange) apply(c *Core, now ledger.Instant) bool {
	if p.err = p.change(c.ledger, now); p.err == nil {
		c.turns[p.name]++
	}
	return true
}

// changeProvider puts or deletes a provider. When it returns that is durable, and what is read for the provider as it was before changes
// nothing any more.
func (w *writer) changeProvider(ctx context.Context, name ledger.ClusterName, change func(*ledger.Ledger, ledger.Instant) error) error {
	p := &providerChange{name: name, change: change, told: w.reread}
	p.From = originOf(ctx)
	p.done = make(chan error, 1)
	p.Done = func(err error) { p.done <- err }
	if err := w.submit(p); err != nil {
		return err
	}
	if _, err := w.await(ctx, p.done); err != nil {
		return err
	}
	return p.err
}

// inner is a command of the coordinator's own. It is never refused for want of room, and answered at once: it shows nothing to anybody
// that could fail to become durable.
type inner struct {
	run  func(c *Core, now ledger.Instant) error
	done chan error // holds one
	from *Origin
}

func (i *inner) origin() *Origin { return i.from }

func (i *inner) apply(c *Core, now ledger.Instant) bool {
	i.answer(i.run(c, now))
	return false
}

func (i *inner) answer(err error) {
	select {
	case i.done <- err:
	default: // a ledger that panics is answered for by whoever sees that, too
	}
}

// within runs a command of the coordinator's own, in its turn. The error is run's, or says that this coordinator does not lead. After an
// error run's results must not be read.
func (w *writer) within(ctx context.Context, from *Origin, run func(c *Core, now ledger.Instant) error) error {
	i := &inner{run: run, done: make(chan error, 1), from: from}
	w.side.put(i)
	_, err := w.await(ctx, i.done)
	return err
}

// assignments are the clusters that are to be read now.
func (w *writer) assignments(ctx context.Context) ([]assignment, error) {
	var list []assignment
	err := w.within(ctx, nil, func(c *Core, _ ledger.Instant) error {
		for _, record := range c.ledger.Providers() {
			list = append(list, assignment{record, c.meta.Epoch, c.turns[record.ClusterName]})
		}
		return nil
	})
	if err != nil {
		return nil, err
	}
	return list, nil
}

// assigned runs a command for an assignment, unless that is over.
func (w *writer) assigned(ctx context.Context, a *assignment, run func(l *ledger.Ledger, now ledger.Instant) error) error {
	return w.within(ctx, &Origin{Procedure: "reading of " + a.String()}, func(c *Core, now ledger.Instant) error {
		if c.meta.Epoch != a.epoch || c.turns[a.ClusterName] != a.turn {
			return errSuperseded
		}
		return run(c.ledger, now)
	})
}
