package ledger

import "cmp"

// LeaderEndPolicy is a host's policy for an engine whose main process has ended while its other
// processes live on. The numbers are those of the contract.
type LeaderEndPolicy uint8

// The policies.
const (
	LeaderEndUnknown LeaderEndPolicy = iota
	KeepAtLeaderEnd
	StopAtLeaderEnd
)

// LeaderEnd is the end of an engine's main process while others of the engine lived on. It is a
// value: nothing changes one that an allocation has.
type LeaderEnd struct {
	Time   Instant     // when its agent noticed that
	Exit   *ExitStatus // nil: not known
	Policy LeaderEndPolicy
}

// equal reports whether both say the same.
func (l *LeaderEnd) equal(other *LeaderEnd) bool {
	if l == nil || other == nil {
		return l == other
	}
	return l.Time == other.Time && l.Policy == other.Policy && l.Exit.equal(other.Exit)
}

// equal reports whether both say the same.
func (s *ExitStatus) equal(other *ExitStatus) bool {
	if s == nil || other == nil {
		return s == other
	}
	code := s.Code == other.Code || s.Code != nil && other.Code != nil && *s.Code == *other.Code
	return code && s.Signal == other.Signal && s.OutOfMemory == other.OutOfMemory
}

// noteLeaderEnd stores an agent's report of the end of a live engine's main process. It reports
// whether that is new. A report without it changes nothing: older agents do not report it, and the
// process does not come back.
func (e *entry) noteLeaderEnd(reported *LeaderEnd) (changed bool) {
	if reported == nil || reported.equal(e.LeaderEnd) {
		return false
	}
	e.LeaderEnd = reported
	return true
}

// takeLeaderEnd stores the end of the main process from an engine's tombstone.
func (e *entry) takeLeaderEnd(end *EngineEnd) {
	e.LeaderEnd = cmp.Or(end.LeaderEnd, e.LeaderEnd)
}
