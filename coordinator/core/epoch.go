package core

import (
	"fmt"
	"math"
	"math/rand/v2"
	"time"

	"github.com/bursar/bursar/coordinator/ledger"
	"github.com/bursar/bursar/internal/discovery"
)

const (
	// fenceEvery and fenceBurst bound how often the reports of one host end a leadership. A real
	// host does that once for each restore of the store from a backup, if no other host has done so
	// before. A lying host costs all callers a pause, which must be rare.
	fenceEvery = 5 * time.Minute
	fenceBurst = 3
)

// anyHost stands for all unknown hosts: the ledger does not have them, and the reporter is not
// known to be their agent. Together they count as one host. If a whole store was lost and no
// identities are configured, all hosts are unknown.
const anyHost = ""

// EpochError refuses the report of a host that has seen an epoch which this leadership did not give
// out. Nothing of the report was applied. It wraps ErrNotLeading if the leadership ends because of
// it, otherwise a *ledger.FieldError.
type EpochError struct {
	HostID string
	Epoch  uint64 // the epoch that the host has seen
	Err    error
}

func (e *EpochError) Error() string { return fmt.Sprintf("host %s: %v", e.HostID, e.Err) }

// Unwrap returns the error for the caller.
func (e *EpochError) Unwrap() error { return e.Err }

// SeenEpoch is the last leadership that a host knows. Number is 0 if its agent does not know it,
// because it is of the previous version.
type SeenEpoch struct {
	Epoch  uint64
	Number uint64
}

// observeEpoch checks the leadership that a host has seen, in its report. An epoch above this
// leadership's ends this leadership: the store was restored to an earlier state, or another
// coordinator leads now, and this one may accept and grant nothing any more. The same epoch of
// another leadership ends it, too: the epoch was given out before the store was restored, and the
// host's revisions belong to a ledger that is gone. If the host does not report the number of the
// leadership, it counts as this one in two cases: this leadership has informed the host, or the
// ledger does not have the host, so that nothing can be wrong. The error is an *EpochError.
//
// ofAgent says that the reporter is known to be the host's own agent. A host can end only a limited
// number of leaderships; beyond that its report is still refused.
func (c *Core) observeEpoch(now ledger.Instant, host string, ofAgent bool, last SeenEpoch) error {
	seen := last.Epoch
	if seen < c.meta.Epoch || seen == c.meta.Epoch && (c.isOurs(host, last.Number) || last.Number == 0 && !c.hasHost(host)) {
		return nil
	}
	refuse := func(err error) error { return &EpochError{HostID: host, Epoch: seen, Err: err} }
	if !discovery.Believable(seen, c.meta.Epoch) {
		return refuse(epochError(seen, fmt.Sprintf("one that a coordinator of this store gave out, which is at %d: if most agents have "+
			"seen such epochs, raise the store's with bursar store epoch --at-least %d; if few, start those once with --forget-epoch", c.meta.Epoch, seen+1)))
	}
	if seen > c.superseded || c.superseded == 0 {
		reporter := host
		if !c.hasHost(host) && !ofAgent {
			reporter = anyHost
		}
		if wait := c.fenceLimits.allow(reporter, now); wait > 0 {
			return refuse(epochError(seen, fmt.Sprintf(
				"one that this coordinator gave out, which is at %d: the word of this host has ended enough leaderships, and counts again in %s",
				c.meta.Epoch, wait.Round(time.Second))))
		}
		c.superseded = seen
	}
	return refuse(fmt.Errorf("%w (epoch %d was seen, this one is %d)", ErrNotLeading, seen, c.meta.Epoch))
}

func epochError(seen uint64, want string) error {
	return &ledger.FieldError{Field: "epoch", Value: fmt.Sprint(seen), Want: want}
}

// isOurs reports whether a host that has seen this epoch has seen this leadership.
func (c *Core) isOurs(host string, number uint64) bool {
	if number != 0 {
		return number == c.leadership
	}
	return c.informed[host]
}

// hasHost reports whether the ledger has a host.
func (c *Core) hasHost(host string) bool { return c.ledger.HasHost(host) }

// markInformed records that a host gets this leadership's epoch. Only hosts of the ledger get it.
func (c *Core) markInformed(host string) { c.informed[host] = true }

// fenceLimits has the hosts whose reports have ended leaderships, each with the time at which its
// count is zero again. It has no more entries than there are hosts.
type fenceLimits map[string]ledger.Instant

// allow counts one ended leadership on the reporting host. If the host has ended too many, it
// counts nothing and returns the time until the host may end the next one.
func (f fenceLimits) allow(reporter string, now ledger.Instant) (wait time.Duration) {
	free := max(f[reporter], now)
	if wait = free.Sub(now) - (fenceBurst-1)*fenceEvery; wait > 0 {
		return wait
	}
	for other, until := range f {
		if until <= now {
			delete(f, other)
		}
	}
	f[reporter] = free.Add(fenceEvery)
	return 0
}

// DrawLeadership draws the number of a leadership.
func DrawLeadership() uint64 { return 1 + rand.Uint64N(math.MaxUint64) }

// Leadership is the unique number of the latest leadership.
func (c *Core) Leadership() uint64 { return c.leadership }
