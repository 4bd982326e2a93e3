package store

import (
	"cmp"
	"encoding/base64"
	"encoding/binary"
	"slices"
	"strings"

	"github.com/bursar/bursar/coordinator/ledger"
)

// Size is the number of allocations of a page.
func (q *HistoryQuery) Size() int {
	if q.PageSize <= 0 {
		return DefaultPage
	}
	return min(q.PageSize, MaxPage)
}

// MatchesRow reports whether the columns of a row match, so that its payload should be decoded.
func (q *HistoryQuery) MatchesRow(id ledger.ID, state ledger.State, hostID string) bool {
	return (q.HostID == "" || q.HostID == hostID) &&
		(len(q.States) == 0 || slices.Contains(q.States, state)) &&
		(q.IDPrefix == "" || strings.HasPrefix(id.String(), q.IDPrefix))
}

// Matches reports whether an ended allocation matches all of the query.
func (q *HistoryQuery) Matches(a *ledger.Allocation) bool {
	return q.MatchesRow(a.ID, a.State, a.HostID) && a.Labels.MatchesFilter(q.Labels) &&
		(len(q.Phases) == 0 || slices.Contains(q.Phases, a.Phase())) && (q.Name == "" || q.Name == a.Name())
}

// Position is a position in the history, which is ordered by end, then by id.
type Position struct {
	Ended ledger.Instant
	ID    ledger.ID
}

// Compare orders positions like rows: ids as the signed numbers in tables.
func (p Position) Compare(q Position) int {
	const sign = 1 << 63
	return cmp.Or(cmp.Compare(p.Ended, q.Ended), cmp.Compare(p.ID^sign, q.ID^sign))
}

// positionLength is the length in bytes of a position in a token.
const positionLength = 16

// Token is the page token for the rows after the position.
func (p Position) Token() string {
	b := binary.BigEndian.AppendUint64(make([]byte, 0, positionLength), uint64(p.Ended)) //nolint:gosec // comes back as it was
	return base64.RawURLEncoding.EncodeToString(binary.BigEndian.AppendUint64(b, uint64(p.ID)))
}

// ParseToken reads a token of Token. The error is ErrBadToken.
func ParseToken(token string) (Position, error) {
	b, err := base64.RawURLEncoding.Strict().DecodeString(token)
	if err != nil || len(b) != positionLength {
		return Position{}, ErrBadToken
	}
	return Position{
		Ended: ledger.Instant(binary.BigEndian.Uint64(b)), //nolint:gosec // comes back as it was
		ID:    ledger.ID(binary.BigEndian.Uint64(b[8:])),
	}, nil
}

// CallerOf returns the caller whose repeats a row answers, and in whose history it counts unless it
// is CountsOnHost. That is the allocation's caller. If the allocation has ended and is known only
// from an agent's report, it is the host, as "@" and its id. Otherwise an agent could fill the
// history of any caller.
func CallerOf(a *ledger.Allocation) string {
	if a.State.Live() || !a.Adopted() {
		return a.Caller
	}
	return OfHost + a.HostID
}

// OfHost is the prefix of a host in CallerOf. Callers through an agent are named USER@HOST.
const OfHost = "@"

// CountsOnHost in the state column of a row says that the row counts in the history of its host,
// although it answers its caller's repeats: the allocation ended, its host's agent brought it back,
// and it ended again. Otherwise an agent could make the same rows count again and again.
const CountsOnHost = 1 << 8

// StateOf returns the state column of an allocation's row.
func StateOf(a *ledger.Allocation) int16 {
	if !a.State.Live() && a.BroughtBack() {
		return int16(a.State) | CountsOnHost
	}
	return int16(a.State)
}

// Charge counts an end in the history of the charged caller, if that is another one. payload is the
// row's payload; nil if there is no other caller. If it cannot be read, the end stays with its
// caller.
func (e *End) Charge(payload []byte) {
	if len(payload) == 0 {
		return
	}
	if a, err := DecodeAllocation(e.ID, false, payload); err == nil && e.Caller == a.Caller {
		e.Caller = a.Payer()
	}
}

// EndOf returns the end of an allocation, by which its row is ordered in the history; zero if it is
// live. An end without a time, which a ledger never writes, is the earliest.
func EndOf(a *ledger.Allocation) ledger.Instant {
	if a.State.Live() {
		return 0
	}
	return max(a.Ended, 1)
}
