package yarn

import (
	"cmp"
	"context"
	"errors"
	"slices"
	"sync"
	"time"

	"github.com/bursar/bursar/providers"
)

// probed is the state that one server reported.
type probed struct {
	server *server
	info   clusterInfo
	took   time.Duration
	err    error
}

// probe asks all servers at once for their state; each has at most patience.
func (p *Provider) probe(ctx context.Context, patience time.Duration) []probed {
	found := make([]probed, len(p.servers))
	var all sync.WaitGroup
	var failed faults
	for i, at := range p.servers {
		all.Go(func() {
			defer failed.catch(func() {})
			ctx, cancel := context.WithTimeout(ctx, patience)
			defer cancel()
			begin := p.now()
			info, err := at.info(ctx)
			found[i] = probed{server: at, info: info, took: p.now().Sub(begin), err: err}
		})
	}
	all.Wait()
	failed.rethrow()
	return found
}

// claimants returns the servers that report that they are active, latest start first. If there are
// two, the other one has not noticed yet that it is standby now.
func claimants(found []probed) []*probed {
	var list []*probed
	for i := range found {
		if found[i].err == nil && found[i].info.active() {
			list = append(list, &found[i])
		}
	}
	slices.SortStableFunc(list, func(a, b *probed) int { return cmp.Compare(b.info.id, a.info.id) })
	return list
}

// findActive looks for the active server and reads all queues from it. first is the error of the
// last active server; nil: there was none.
func (p *Provider) findActive(ctx context.Context, first error) (providers.Snapshot, error) {
	patience := probeTime
	if len(p.servers) == 1 {
		patience = p.settings.pace.Timeout / 2 // no other server needs the time
	}
	found := p.probe(ctx, patience)
	list := claimants(found)
	for i, claimant := range list {
		begin := p.now()
		snapshot, err := p.readFrom(ctx, claimant, len(list)-i)
		if err == nil {
			p.active, p.took = claimant.server, p.now().Sub(begin)
			return snapshot, nil
		}
		claimant.err = err
	}
	if len(list) == 1 {
		// The cluster is up but its answer is malformed: that is no failover.
		if wrong, ok := errors.AsType[*ServerError](list[0].err); ok && wrong.Trouble == Senseless {
			return providers.Snapshot{}, wrong
		}
	}
	return providers.Snapshot{}, unavailable(found, first)
}

// readFrom reads all queues from one of left servers, within its share of the time.
func (p *Provider) readFrom(ctx context.Context, claimant *probed, left int) (providers.Snapshot, error) {
	ctx, cancel := shareOf(ctx, left)
	defer cancel()
	return p.read(ctx, claimant.server, &claimant.info)
}

// unavailable collects the errors of all servers. NoneActive is true if at least one server
// answered, and every server that answered is not active.
func unavailable(found []probed, first error) error {
	var said serversError
	answered, active, some := false, false, false
	for _, f := range found {
		err := f.err
		if err == nil {
			err = f.server.notActive(f.info)
		}
		said = append(said, err)
		some = some || gaveAnswer(err)
		wrong, _ := errors.AsType[*ServerError](err)
		switch {
		case wrong == nil || wrong.Trouble == Unreachable:
			active = active || f.info.active() && f.info.id != 0 // reported active, then failed
		case wrong.Trouble == NotInCharge:
			answered = true
		case wrong.Trouble == Failing && f.info.id == 0:
		default:
			active = true // or could be
		}
	}
	if first != nil && !slices.ContainsFunc(said, func(err error) bool { return err.Error() == first.Error() }) {
		said = append(said, first)
	}
	return &providers.UnavailableError{NoneActive: answered && !active, Answered: some, Err: said}
}

// gaveAnswer reports whether a server answered, or was not asked.
func gaveAnswer(err error) bool {
	wrong, ok := errors.AsType[*ServerError](err)
	return ok && wrong.Trouble != Unreachable
}

// Servers asks every server for its state. An operator waits for it, so each server gets the time
// of a whole reading: the first ticket is slow.
func (p *Provider) Servers(ctx context.Context) []providers.Server {
	var list []providers.Server
	for _, f := range p.probe(ctx, p.settings.pace.Timeout) {
		made := providers.Server{Address: f.server.String(), Took: f.took, Err: f.err}
		if wrong, ok := errors.AsType[*ServerError](f.err); ok && wrong.Trouble == NotInCharge {
			// Before Hadoop 2.7 a standby server reports nothing else.
			made.Role, made.Err = "standby", nil
		} else if f.err == nil {
			made.Role, made.Version = f.info.role(), f.info.version
			if made.Role == "" {
				made.Err = f.server.notActive(f.info)
			}
		}
		list = append(list, made)
	}
	return list
}
