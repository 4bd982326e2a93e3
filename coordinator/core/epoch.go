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
	// fenceEvery and fenceBurst bound how often the word of one host ends a leadership. A real one does once for each time that the store
	// was put back, if others have not done so before; one that lies costs everybody a pause, which must stay a rare one.
	fenceEvery = 5 * time.Minute
	fenceBurst = 3
)

// anyHost stands for all hosts that nobody vouches for: the ledger does not have them, and whoever reports is not known as their
// agent. They are not worth more than one host together. Who has lost a store altogether has only such ones, where it has no
// identities.
const anyHost = ""

// EpochError refuses what a host reports that has seen an epoch which this leadership did not give out. Nothing of it was taken in. Where it is
// an ErrNotLeading the leadership ends because of it, and else it is a *ledger.FieldError.
type EpochError struct {
	HostID string
	Epoch  uint64 // that the host has seen
	Err    error
}

func (e *EpochError) Error() string { return fmt.Sprintf("host %s: %v", e.HostID, e.Err) }

// Unwrap returns what it means for the caller.
func (e *EpochError) Unwrap() error { return e.Err }

// SeenEpoch is the leadership of which a host has heard last. Number is 0 where its agent does not know it: one of the version before.
type SeenEpoch struct {
	Epoch  uint64
	Number uint64
}

// observeEpoch looks at the leadership that a host has seen, in its report. An epoch above this leadership's ends it: the store was put back to an
// earlier state, or another leads by now, and nothing may be accepted or granted on the strength of it. So does the same epoch of another
// leadership: that was given out before the store was put back, and the revisions that the host knows are of a ledger that is gone. Where
// the host does not say which leadership it was, it is taken for this one if this one has told the host, or does not have it: there is
// nothing that it could be wrong about. The error is an *EpochError.
//
// ofAgent says that the host's own agent is known to report. A host ends a leadership only so often; what it reports is refused all the
// same.
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

// isOurs reports whether what a host says of this epoch's number is about this leadership.
func (c *Core) isOurs(host string, number uint64) bool {
	if number != 0 {
		return number == c.leadership
	}
	return c.informed[host]
}

// hasHost reports whether the ledger has a host.
func (c *Core) hasHost(host string) bool {
	_, known := c.ledger.Host(host)
	return known
}

// markInformed notes that a host is told of this leadership's epoch. Only those that the ledger has are: others are told nothing.
func (c *Core) markInformed(host string) { c.informed[host] = true }

// fenceLimits has the hosts whose reports have ended leaderships, each with the moment from which
// nothing is held against it. There are no more of them than there are hosts.
type fenceLimits map[string]ledger.Instant

// allow counts one ended leadership on the host that reports. If the host has ended too many, it is
// not counted, and wait says when the next one is.
func (c fenceLimits) allow(reporter string, now ledger.Instant) (wait time.Duration) {
	free := max(c[reporter], now)
	if wait = free.Sub(now) - (fenceBurst-1)*fenceEvery; wait > 0 {
		return wait
	}
	for other, until := range c {
		if until <= now {
			delete(c, other)
		}
	}
	c[reporter] = free.Add(fenceEvery)
	return 0
}

// DrawLeadership draws the number of a leadership.
func DrawLeadership() uint64 { return 1 + rand.Uint64N(math.MaxUint64) }
