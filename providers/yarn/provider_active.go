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

// probed is what one server said it is.
type probed struct {
	server *server
	info   clusterInfo
	took   time.Duration
	err    error
}

// probe asks all servers at once what they are, each for at most so long.
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

// claimants returns those that say they are active, the one that was started last first. If there
// are two, the other has not noticed yet that it is not active any longer.
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

// findActive looks for the active server and reads all queues from it. first is how the server
// that was active failed; nil: there was none.
func (p *Provider) findActive(ctx context.Context, first error) (providers.Snapshot, error) {
	patience := probeTime
	if len(p.servers) == 1 {
		patience = p.settings.pace.Timeout / 2 // there is no other to hurry to
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
		// The cluster is there and what it says makes no sense: that is no failover.
		if wrong, ok := errors.AsType[*ServerError](list[0].err); ok && wrong.Trouble == Senseless {
			return providers.Snapshot{}, wrong
		}
	}
	return providers.Snapshot{}, unavailable(found, first)
}

// readFrom reads all queues from one of so many that are left, and leaves the others their share
// of the time.
func (p *Provider) readFrom(ctx context.Context, claimant *probed, left int) (providers.Snapshot, error) {
	ctx, cancel := shareOf(ctx, left)
	defer cancel()
	return p.read(ctx, claimant.server, &claimant.info)
}

// unavailable says what each server said. None is active if at least one answered, and each one
// that answered is not in charge.
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
			active = active || f.info.active() && f.info.id != 0 // it said so, and then nothing
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

// gaveAnswer reports whether a server gave some answer, or was not asked for one.
func gaveAnswer(err error) bool {
	wrong, ok := errors.AsType[*ServerError](err)
	return ok && wrong.Trouble != Unreachable
}

// Servers asks every server what it is. A person waits for it, so each has as long as a reading:
// the first ticket takes its time.
func (p *Provider) Servers(ctx context.Context) []providers.Server {
	var list []providers.Server
	for _, f := range p.probe(ctx, p.settings.pace.Timeout) {
		made := providers.Server{Address: f.server.String(), Took: f.took, Err: f.err}
		if wrong, ok := errors.AsType[*ServerError](f.err); ok && wrong.Trouble == NotInCharge {
			// Before Hadoop 2.7 a standby does not answer with more than that.
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
