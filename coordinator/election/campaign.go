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

// lockDelay is how long Consul keeps a key from others after its session was lost. It is there for
// holders that do not know yet; here the store's epoch keeps those from writing, so it is the
// least that Consul takes.
const lockDelay = time.Millisecond

// Pauses after an attempt that failed though the key was free: Consul is in between two states for
// some milliseconds, or troubled.
const (
	firstAttempt = 20 * time.Millisecond
	lastAttempt  = time.Second
)

// preparedFirst is how long a coordinator that is not prepared lets others try to lead. They are
// told of the free key at the same time, and need three requests to Consul. To read 200,000
// allocations takes some seconds.
const preparedFirst = 500 * time.Millisecond

// Campaign implements Election. An error other than the context's refuses before anything has
// worked: a token that may not do this, a certificate that is not trusted, an address that speaks
// something else. Later such errors are logged, and it is tried again.
func (e *ConsulElection) Campaign(ctx context.Context) (Term, error) {
	e.mu.Lock()
	e.patience = 0
	e.mu.Unlock()
	c := candidate{election: e, log: consul.FailureLog{Log: e.options.Log}}
	defer c.withdraw(ctx)
	pause := backoff.NewExponentialBackOff(backoff.WithInitialInterval(firstAttempt), backoff.WithMultiplier(2),
		backoff.WithMaxInterval(lastAttempt), backoff.WithMaxElapsedTime(0))
	// First: a coordinator with another store may not be registered at all.
	if err := c.claimStore(ctx, pause); err != nil {
		return nil, err
	}
	if err := e.registration.Registered(ctx); err != nil {
		return nil, err
	}
	var othersUntil time.Time // others go first, if this one is not prepared
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

// look returns the last reading of the key, with what is closed when it changes, and whether this
// coordinator yields to another cluster. If a leader has just gone, it says until when others go
// first.
func (e *ConsulElection) look(othersUntil *time.Time) (now reading, changed <-chan struct{}, yields bool) {
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.reading.holder == "" && e.others {
		e.others, *othersUntil = false, time.Now().Add(preparedFirst)
	}
	return e.reading, e.changed, e.yields
}

// isLeftover reports that the key is held by a session of this coordinator's own, of a term that
// it could not resign from. Its health check passes, so that session would stay. One that an
// earlier start left behind ends with the check that it was bound to.
func (e *ConsulElection) isLeftover(now reading) bool {
	e.mu.Lock()
	defer e.mu.Unlock()
	return now.holder == e.last
}

// releaseLeftover gives such a key up.
func (c *candidate) releaseLeftover(ctx context.Context, now reading) {
	c.session = now.holder
	c.withdraw(ctx)
}

// twinAfter is the number of TTLs after which a leader at this coordinator's own address is taken
// for another process. A leadership from before a restart of this coordinator is gone after one
// TTL. If Consul's agent ended with it, the leadership is gone when Consul's servers count that
// agent out.
const twinAfter = 5

// checkTwin logs, once, that a leader has this coordinator's address and stays: nobody can tell
// the two apart. It returns how long to wait until that is known, or 0 if there is nothing to wait
// for.
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
	logged bool      // it was complained about
}

// acquire tries to take the key. If it is to be tried again, it returns neither a term nor an
// error.
func (c *candidate) acquire(ctx context.Context) (Term, error) {
	e := c.election
	start := e.registration.LastPass()
	held, err := c.takeKey(ctx)
	if err != nil {
		// the result of the attempt is unknown: with the session everything of it goes
		c.withdraw(ctx)
		return nil, c.retriable(ctx, err)
	}
	c.log.Worked("this coordinator stands for election again")
	if !held { // a session is kept alive by its term alone
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

// claimStore makes sure that the cluster's store is the candidate's, before it stands by for a
// leadership that it could not take. Another store is an error for a coordinator that has never
// claimed its own: it is configured wrongly. A coordinator that has claimed its store before is
// configured right. It waits until the key is right again.
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

// reportMismatch tells the coordinator whether the cluster's store is another than its own.
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

// releaseLastTerm gives up what is left of the last term, so that a coordinator with the right
// store leads.
func (c *candidate) releaseLastTerm(ctx context.Context) {
	e := c.election
	e.mu.Lock()
	now := e.reading
	e.mu.Unlock()
	if now.known && now.holder != "" && e.isLeftover(now) {
		c.releaseLeftover(ctx, now)
	}
}

// retriable returns nil for an error after which it is tried again: every error except the
// context's, and except a refusal before anything has worked.
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

// takeKey takes the key for a new session.
func (c *candidate) takeKey(ctx context.Context) (held bool, err error) {
	e := c.election
	if c.session, err = e.newSession(ctx); err != nil {
		return false, e.client.Explain("make a session", err)
	}
	held, err = e.writeKey(ctx, c.session, e.candidacy())
	return held, e.client.Explain("take "+e.key(), err)
}

// candidacy is what the key says of a coordinator that has just taken it.
func (e *ConsulElection) candidacy() announcement {
	return announcement{ID: e.options.ID, URL: e.options.URL}
}

// sessionTTL is for how long a session may go without being renewed. Consul's servers end it at
// twice that, whatever its checks say. They are there for an election within a TTL: if an agent of
// Consul has failed to pass something on to its servers, it can keep the failure of a check to
// itself for half a minute and longer. It is the least that Consul takes.
func sessionTTL(ttl time.Duration) time.Duration { return max(10*time.Second, ttl) }

// newSession makes a session that ends with the coordinator's health check, or with its machine's,
// or if it is not renewed.
func (e *ConsulElection) newSession(ctx context.Context) (string, error) {
	ctx, cancel := e.bounded(ctx)
	defer cancel()
	id, _, err := e.client.API().Session().Create(&api.SessionEntry{
		Name: "bursar " + e.options.Cluster + " " + e.options.ID, Behavior: api.SessionBehaviorRelease, LockDelay: lockDelay,
		TTL: sessionTTL(e.options.TTL).String(), NodeChecks: []string{"serfHealth"}, ServiceChecks: []api.ServiceCheck{{ID: e.registration.CheckID()}},
	}, e.client.Write(ctx))
	return id, err
}

// withdraw destroys a session that has won nothing. If Consul is away, the session ends with the
// health check.
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

// invalidSession reports that a call failed because its session has ended.
func invalidSession(err error) bool {
	var status api.StatusError
	return errors.As(err, &status) && status.Code == http.StatusInternalServerError && strings.Contains(status.Body, "invalid session")
}
