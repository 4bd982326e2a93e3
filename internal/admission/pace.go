package admission

import (
	"time"

	"golang.org/x/time/rate"
)

// lastTurn bounds how far in the future the turns of refused requests are. Later refusals share the
// turns that were given before: a caller that never comes back must not delay others of the same
// user for longer.
const lastTurn = 10 * time.Second

// pace is the rate limit of one kind of event of a caller: a rate per second and a burst. A nil
// pace bounds nothing. It is guarded by the lock of the controller.
type pace struct {
	limiter *rate.Limiter
	given   time.Time // the last turn that was given
}

func newPace(limit, burst int) *pace {
	return &pace{limiter: rate.NewLimiter(rate.Limit(limit), burst)}
}

// set replaces the bounds.
func (p *pace) set(now time.Time, limit, burst int) {
	if p != nil {
		p.limiter.SetLimitAt(now, rate.Limit(limit))
		p.limiter.SetBurstAt(now, burst)
	}
}

// isUnused reports whether the pace is like a new one.
func (p *pace) isUnused(now time.Time) bool {
	return p == nil || p.limiter.TokensAt(now) >= float64(p.limiter.Burst())
}

// allow counts one more event, unless it comes too fast.
func (p *pace) allow(now time.Time) bool { return p == nil || p.limiter.AllowN(now, 1) }

// reserve counts one more event, and returns the delay before it may begin. It does not count an
// event whose delay would exceed most.
func (p *pace) reserve(now time.Time, most time.Duration) (after time.Duration, ok bool) {
	if p == nil {
		return 0, true
	}
	r := p.limiter.ReserveN(now, 1)
	if after = r.DelayFrom(now); after > most {
		r.CancelAt(now)
		return 0, false
	}
	return after, true
}

// turn returns the delay after which a refused request is to come again. Each request gets a turn
// of its own, as far apart as the rate allows: if all got the same, all but one would be refused
// again.
func (p *pace) turn(now time.Time) time.Duration {
	step := time.Duration(float64(time.Second) * min(lastTurn.Seconds(), 1/float64(p.limiter.Limit())))
	if p.given.Before(now) || p.given.Sub(now) > lastTurn-step {
		p.given = now
	}
	p.given = p.given.Add(step)
	return p.given.Sub(now)
}
