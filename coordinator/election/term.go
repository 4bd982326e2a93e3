package election

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"github.com/hashicorp/consul/api"

	"github.com/bursar/bursar/internal/discovery"
)

// errOver is Announce's error if the term has ended.
var errOver = errors.New("the term is over: somebody else may lead")

// consulTerm is a session that holds the key.
type consulTerm struct {
	election *ConsulElection
	session  string
	lease    *lease
	said     announcement // guarded by the election's mu: the required value of the key
	// written is the last value that this term has written, as far as it knows; guarded by the
	// election's mu.
	written announcement
}

// Over implements Term.
func (t *consulTerm) Over() <-chan struct{} { return t.lease.over }

func (t *consulTerm) isOver() bool {
	select {
	case <-t.lease.over:
		return true
	default:
		return false
	}
}

// Announce implements Term. If the term has ended according to Consul, the error is errOver.
func (t *consulTerm) Announce(ctx context.Context, epoch uint64, storeID string) error {
	if t.isOver() {
		return errOver
	}
	e := t.election
	said := announcement{ID: e.options.ID, URL: e.options.URL, Epoch: epoch, StoreID: storeID}
	e.mu.Lock()
	t.said = said // before the write: later reads of the key are compared with this
	e.mu.Unlock()
	held, err := e.writeKey(ctx, t.session, said)
	switch {
	case invalidSession(err), err == nil && !held:
		t.lease.end()
		return errOver
	case err != nil:
		e.setPatience(err)
		return e.client.Explain("announce the leadership in "+e.key(), err)
	}
	t.setWritten(said)
	e.registration.Lead(epoch)
	return nil
}

// Resign implements Term. It releases the key before it destroys the session, because the lock
// delay applies only to keys of a lost session.
func (t *consulTerm) Resign(ctx context.Context) error {
	e := t.election
	t.lease.end()
	e.mu.Lock()
	e.term = nil
	e.changedLocked()
	e.mu.Unlock()
	ctx, cancel := e.bounded(ctx)
	defer cancel()
	_, _, releasing := e.client.API().KV().Release(&api.KVPair{Key: e.key(), Session: t.session}, e.client.Write(ctx))
	if invalidSession(releasing) {
		return nil
	}
	_, err := e.client.API().Session().Destroy(t.session, e.client.Write(ctx))
	// without its session it holds nothing: if the session was destroyed, the release may have
	// failed
	if err != nil {
		err = errors.Join(releasing, err)
	}
	return e.client.Explain("give up "+e.key(), err)
}

// termEnded is called when the term has ended for any reason.
func (e *ConsulElection) termEnded() {
	e.registration.Follow()
	e.mu.Lock()
	defer e.mu.Unlock()
	e.changedLocked()
}

// renewTerm is called after each pass of the health check. Consul's agent on this machine has
// accepted that pass, but only its servers know whether the term goes on. Both together renew the
// lease. The session is renewed as well; it has much more time than the lease.
func (e *ConsulElection) renewTerm(ctx context.Context, start time.Time) {
	t := e.checkTerm(ctx)
	if t == nil {
		return
	}
	t.lease.renew(start)
	if _, _, err := e.client.API().Session().Renew(t.session, e.client.Write(ctx)); err != nil {
		e.renewals.Failed("Consul does not renew the session that this coordinator leads by", e.client.Explain("renew a session", err))
		return
	}
	e.renewals.Worked("Consul renews the session that this coordinator leads by again")
}

// checkTerm asks Consul's servers whether the term goes on, and returns it. If it does not,
// checkTerm ends it. It returns nil if there is no term, or if the servers do not answer.
func (e *ConsulElection) checkTerm(ctx context.Context) *consulTerm {
	e.mu.Lock()
	t := e.term
	e.mu.Unlock()
	if t == nil || t.isOver() {
		return nil
	}
	e.mu.Lock()
	written := t.written // before the read of the key: an announcement may come in between
	e.mu.Unlock()
	options := e.client.Query(ctx)
	options.RequireConsistent = true
	pair, meta, err := e.client.API().KV().Get(e.key(), options)
	switch {
	case err != nil:
		e.doubts.Failed("Consul does not say whether this coordinator still leads", e.client.Explain("read "+e.key(), err))
		return nil
	case meta.LastIndex == 0: // it was not Consul that answered
		return nil
	case pair == nil || pair.Session != t.session:
		e.options.Log.Warn("this coordinator does not lead any more: its session in Consul has ended, or its key was taken away", "key", e.key())
		t.lease.end()
		return nil
	}
	e.doubts.Worked("Consul says again that this coordinator leads")
	t.correct(ctx, pair, written)
	return t
}

// setWritten stores the written value.
func (t *consulTerm) setWritten(value announcement) {
	t.election.mu.Lock()
	defer t.election.mu.Unlock()
	t.written = value
}

// correct writes the key again if it does not have the required value. If an announcement of this
// term did not get through, the key has the previously written value. Any other value comes from
// another writer. Others may write there although this term holds the lock, and the other
// coordinators would call the coordinator that it names.
func (t *consulTerm) correct(ctx context.Context, pair *api.KVPair, written announcement) {
	e := t.election
	e.mu.Lock()
	want, wrote := t.said, t.written
	e.mu.Unlock()
	if want.isIn(pair) {
		return
	}
	if !written.isIn(pair) && !wrote.isIn(pair) {
		e.intruders.Do(func() {
			var found announcement
			_ = json.Unmarshal(pair.Value, &found) // an invalid value names no coordinator
			e.options.Log.Warn("somebody else has written into Consul's key of the leader: it is corrected; see who may write below bursar/", "key", e.key(),
				"said", discovery.Cut(found.URL, discovery.MaxShownValue))
		})
	}
	if _, err := e.writeKey(ctx, t.session, want); err != nil {
		e.options.Log.Warn("Consul's key of the leader was not corrected", "error", e.client.Explain("write "+e.key(), err))
		return
	}
	t.setWritten(want)
}

// writeKey writes the key while the session holds it, or takes it for the session if no session
// holds it. held says whether the session holds it.
func (e *ConsulElection) writeKey(ctx context.Context, session string, value announcement) (held bool, err error) {
	text, err := json.Marshal(value)
	if err != nil {
		return false, fmt.Errorf("write %s: %w", e.key(), err)
	}
	ctx, cancel := e.bounded(ctx)
	defer cancel()
	held, _, err = e.client.API().KV().Acquire(&api.KVPair{Key: e.key(), Value: text, Session: session}, e.client.Write(ctx))
	return held, err
}
