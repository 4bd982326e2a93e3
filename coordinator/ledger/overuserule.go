package ledger

import (
	"math/bits"
	"slices"
	"time"

	"github.com/bursar/bursar/resource"
)

// OverUseRule is the policy for over-use of an engine's host, by its agent's last report. The zero
// rule is not known.
type OverUseRule struct {
	Policy    OverUsePolicy
	Tolerance int32 // how much more than its entitlement it may use, in thousandths of that
	Grace     int32 // under PolicyKill: how long over-use goes on before it is stopped, in seconds
}

// exceeded reports whether a use is beyond an entitlement and the tolerance.
func (r OverUseRule) exceeded(used, entitled int64) bool {
	if entitled <= 0 || used <= entitled {
		return false
	}
	// used - entitled > entitled * tolerance / 1000, in 128 bits
	overHigh, overLow := bits.Mul64(uint64(max(0, used-entitled)), 1000)
	high, low := bits.Mul64(uint64(entitled), uint64(max(0, r.Tolerance)))
	return overHigh > high || overHigh == high && overLow > low
}

// ForeseenOverUse returns the over-use of an active allocation as its host's agent will find it,
// after a Resize: the next measurement may be some seconds away. The over-use that is known stays
// as it is. Only that of memory is foreseen, by what the engine was last seen to use.
func (l *Ledger) ForeseenOverUse(id ID) []OverUse {
	e := l.entry(id)
	if e == nil {
		return nil
	}
	known := slices.ContainsFunc(e.OverUse, func(u OverUse) bool { return u.Dimension == resource.Memory })
	entitled := get(e.Entitled.Vector, resource.Memory)
	if e.State != Active || known || e.rule().Policy == 0 || !e.rule().exceeded(e.Unreclaimable, entitled) {
		return e.OverUse
	}
	u := OverUse{Dimension: resource.Memory, Used: e.Unreclaimable, Entitled: entitled, Since: l.now, Policy: e.rule().Policy}
	if u.Policy == PolicyKill {
		u.StopTime = l.now.Add(time.Duration(max(0, e.rule().Grace)) * time.Second)
	}
	return append(slices.Clone(e.OverUse), u)
}
