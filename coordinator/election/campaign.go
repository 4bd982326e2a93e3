package election

import (
	"context"
	"errors"
	"net/http"
	"strings"
	"time"

	"github.com/cenkalti/backoff/v4"
	"github.com/hashicorp/consul/api"

	"github.com/bursar/bursar/internal/discovery/consul"
)

// lockDelay is how long Consul keeps a key locked after its session was lost. The delay exists for
// holders that have not noticed the loss. Here the store's epoch keeps these from writing, so the
// delay is the shortest that Consul accepts.
const lockDelay = time.Millisecond

// The pauses after an attempt that failed although the key was free: Consul is between two states
// for some milliseconds, or has a fault.
const (
	firstAttempt = 20 * time.Millisecond
	lastAttempt  = time.Second
)

// preparedFirst is how long a coordinator that is not prepared lets others try to lead. Consul
// notifies them of the free key at the same time, and they need three requests to Consul. To read
// 200,000 allocations takes some seconds.
const preparedFirst = 500 * time.Millisecond

// Campaign implements Election. An error other than the context's comes before the first success:
// Consul refuses the token, the certificate is not trusted, or the address speaks another protocol.
// Later, Campaign logs such errors and tries again.
func (e *ConsulElection) Campaign(ctx context.Context) (Term, error) {
	e.mu.Lock()
	e.patience = 0
	e.mu.Unlock()
	c := candidate{election: e, log: consul.FailureLog{Log: e.options.Log}}
	defer c.withdraw(ctx)
	pause := backoff.NewExponentialBackOff(backoff.WithInitialInterval(firstAttempt), backoff.WithMultiplier(2),
		backoff.WithMaxInterval(lastAttempt), backoff.WithMaxElapsedTime(0))
	// First: a coordinator with another store must not be registered at all.
	if err := c.claimStore(ctx, pause); err != nil {
		return nil, err
	}
	if err := e.registration.Registered(ctx); err != nil {
		return nil, err
	}
	var othersUntil time.Time // others go first until then, if this one is not prepared
	for {
		now, changed, yields := e.look(&othersUntil)
		var again time.Duration
		switch {
		case now.refusal != nil:
			return nil, now.refusal
		case yields:
			again = e.options.TTL / 3
		case now.known && now.holder == "" && time.Now().Before(othersUntil) && e.options.Prepared != nil && !e.options.Prepared():
			again = max(time.Millisecond, time.Until(othersUntil))
		case now.known && now.holder == "":
			term, err := c.acquire(ctx)
			if term != nil || err != nil {
				return term, err
			}
			again = pause.NextBackOff()
		case now.known && e.isLeftover(now):
			c.releaseLeftover(ctx, now)
			again = pause.NextBackOff()
		default:
			pause.Reset()
			again = c.checkTwin(now)
		}
		if err := waitForChange(ctx, changed, again); err != nil {
			return nil, err
		}
	}
}

// look returns the last reading of the key, a channel that is closed when it changes, and whether
// this coordinator yields to another cluster. If a leader has just gone, it sets othersUntil, the
// time until which others go first.
func (e *ConsulElection) look(othersUntil *time.Time) (now reading, changed <-chan struct{}, yields bool) {
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.reading.holder == "" && e.others {
		e.others, *othersUntil = false, time.Now().Add(preparedFirst)
	}
	return e.reading, e.changed, e.yields
}

// isLeftover reports whether the key is held by a session of this coordinator itself, of a term
// that it could not resign from. Its health check passes, so that session would stay. A session of
// an earlier start ends with the check that it was bound to.
func (e *ConsulElection) isLeftover(now reading) bool {
	e.mu.Lock()
	defer e.mu.Unlock()
	return now.holder == e.last
}

// releaseLeftover releases such a key.
func (c *candidate) releaseLeftover(ctx context.Context, now reading) {
	c.session = now.holder
	c.withdraw(ctx)
}

// twinAfter is the number of TTLs after which a leader at this coordinator's own address counts as
// another process. A leadership from before a restart of this coordinator is gone after one TTL. If
// Consul's agent ended with it, the leadership is gone when Consul's servers count that agent out.
const twinAfter = 5

// checkTwin logs, once, that a leader has this coordinator's address and stays: others cannot tell
// the two apart. It returns the time until that is certain, or 0 if there is nothing to wait for.
func (c *candidate) checkTwin(now reading) time.Duration {
	e := c.election
	if !now.known || now.leader.URL != e.options.URL {
		c.twin = ""
		return 0
	}
	if c.twin != now.holder {
		c.twin, c.since, c.logged = now.holder, time.Now(), false
	}
	if left := twinAfter*e.options.TTL - time.Since(c.since); left > 0 {
		return left
	}
	if !c.logged {
		c.logged = true
		e.options.Log.Error("another process leads at this coordinator's own address: every coordinator wants one of its own; set advertise",
			"url", e.options.URL, "id", e.options.ID, "leader_id", now.id)
	}
	return 0
}

// waitForChange waits for a change, or for d if d is not 0.
func waitForChange(ctx context.Context, changed <-chan struct{}, d time.Duration) error {
	var due <-chan time.Time
	if d > 0 {
		timer := time.NewTimer(d)
		defer timer.Stop()
		due = timer.C
	}
	select {
	case <-ctx.Done():
		return ctx.Err()
	case <-changed:
	case <-due:
	}
	return nil
}

// candidate is a coordinator that campaigns.
type candidate struct {
	election *ConsulElection
	log      consul.FailureLog
	session  string // of an attempt that has not won yet; empty: there is none

	// twin is the session of a leader at this coordinator's own address; empty: there is none.
	twin   string
	since  time.Time // when that was first seen
	logged bool      // checkTwin has logged it
}

// acquire tries to take the key. If the caller should try again, it returns neither a term nor an
// error.
func (c *candidate) acquire(ctx context.Context) (Term, error) {
	e := c.election
	start := e.registration.LastPass()
	held, err := c.takeKey(ctx)
	if err != nil {
		// the result of the attempt is unknown: the end of the session undoes it
		c.withdraw(ctx)
		return nil, c.retriable(ctx, err)
	}
	c.log.Worked("this coordinator stands for election again")
	if !held { // only a term keeps its session alive
		c.withdraw(ctx)
		return nil, nil //nolint:nilnil // see above
	}
	term := &consulTerm{election: e, session: c.session, said: e.candidacy(), written: e.candidacy()}
	term.lease = newLease(e.options.TTL, start, e.termEnded)
	if term.isOver() { // no pass for too long: others may count it out at any moment
		c.withdraw(ctx)
		return nil, nil //nolint:nilnil // see above
	}
	c.session = ""
	e.mu.Lock()
	e.term, e.led, e.last = term, true, term.session
	e.changedLocked()
	e.mu.Unlock()
	return term, nil
}

// claimStore ensures that the cluster's store is this coordinator's, before it stands by for a
// leadership that it could not take. For a coordinator that has never claimed its own store,
// another store is an error in its configuration. For a coordinator that has claimed it before, the
// key is wrong, and it waits until the key is right again.
func (c *candidate) claimStore(ctx context.Context, pause backoff.BackOff) error {
	e := c.election
	if e.options.StoreID == "" {
		return nil
	}
	for {
		err := e.ClaimStore(ctx, e.options.StoreID, false)
		if err == nil {
			err = e.restoreID(ctx)
		}
		if err == nil {
			pause.Reset()
			c.log.Worked("this coordinator stands for election again")
			e.reportMismatch(nil)
			return nil
		}
		if _, other := errors.AsType[*StoreError](err); other {
			if !e.hasClaimed() {
				return err
			}
			e.reportMismatch(err)
			c.releaseLastTerm(ctx)
		}
		if err := c.retriable(ctx, err); err != nil {
			return err
		}
		if err := waitForChange(ctx, nil, pause.NextBackOff()); err != nil {
			return err
		}
	}
}

// reportMismatch reports whether the cluster's store differs from this coordinator's.
func (e *ConsulElection) reportMismatch(err error) {
	if e.options.Mismatch != nil {
		e.options.Mismatch(err)
	}
}

func (e *ConsulElection) hasClaimed() bool {
	e.mu.Lock()
	defer e.mu.Unlock()
	return e.claimed
}

// releaseLastTerm releases the key if the last term still holds it, so that a coordinator with the
// right store can lead.
func (c *candidate) releaseLastTerm(ctx context.Context) {
	e := c.election
	e.mu.Lock()
	now := e.reading
	e.mu.Unlock()
	if now.known && now.holder != "" && e.isLeftover(now) {
		c.releaseLeftover(ctx, now)
	}
}

// retriable returns nil for an error after which Campaign tries again: every error except the
// context's and a refusal before the first success.
func (c *candidate) retriable(ctx context.Context, err error) error {
	if ctx.Err() != nil {
		return ctx.Err()
	}
	c.election.mu.Lock()
	led := c.election.led
	c.election.mu.Unlock()
	if consul.Refused(err) && !led {
		return err
	}
	c.election.setPatience(err)
	c.log.Failed("this coordinator cannot stand for election", err)
	return nil
}

// takeKey takes the key with a new session.
func (c *candidate) takeKey(ctx context.Context) (held bool, err error) {
	e := c.election
	if c.session, err = e.newSession(ctx); err != nil {
		return false, e.client.Explain("make a session", err)
	}
	held, err = e.writeKey(ctx, c.session, e.candidacy())
	return held, e.client.Explain("take "+e.key(), err)
}

// candidacy is the value of the key when a coordinator has just taken it.
func (e *ConsulElection) candidacy() announcement {
	return announcement{ID: e.options.ID, URL: e.options.URL}
}

// sessionTTL is how long a session lives without a renewal. Consul's servers end it after at most
// twice that, whatever its checks say. The checks are there for an election within a TTL. But a
// Consul agent that has failed to send something to its servers may withhold a failed check for
// half a minute and longer. The value is the shortest that Consul accepts, or the TTL.
func sessionTTL(ttl time.Duration) time.Duration { return max(10*time.Second, ttl) }

// newSession makes a session that ends if the coordinator's or its machine's health check fails, or
// if it is not renewed.
func (e *ConsulElection) newSession(ctx context.Context) (string, error) {
	ctx, cancel := e.bounded(ctx)
	defer cancel()
	id, _, err := e.client.API().Session().Create(&api.SessionEntry{
		Name: "bursar " + e.options.Cluster + " " + e.options.ID, Behavior: api.SessionBehaviorRelease, LockDelay: lockDelay,
		TTL: sessionTTL(e.options.TTL).String(), NodeChecks: []string{"serfHealth"}, ServiceChecks: []api.ServiceCheck{{ID: e.registration.CheckID()}},
	}, e.client.Write(ctx))
	return id, err
}

// withdraw destroys a session that has not won. If Consul is away, the session ends with the health
// check.
func (c *candidate) withdraw(ctx context.Context) {
	if c.session == "" {
		return
	}
	ctx, cancel := c.election.bounded(context.WithoutCancel(ctx))
	defer cancel()
	if _, err := c.election.client.API().Session().Destroy(c.session, c.election.client.Write(ctx)); err != nil {
		c.election.options.Log.Debug("a session that has won nothing was not destroyed", "error", err)
	}
	c.session = ""
}

// invalidSession reports whether a call failed because its session has ended.
func invalidSession(err error) bool {
	var status api.StatusError
	return errors.As(err, &status) && status.Code == http.StatusInternalServerError && strings.Contains(status.Body, "invalid session")
}
