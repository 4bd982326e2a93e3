package ledger

import (
	"errors"
	"fmt"
	"strings"
	"time"
)

// Instant is a point in time in nanoseconds since the Unix epoch. Zero means "not yet" or "never".
type Instant int64

// At converts a time. The zero time is the zero Instant.
func At(t time.Time) Instant {
	if t.IsZero() {
		return 0
	}
	return Instant(t.UnixNano())
}

// MaxInstant is the last time that an id can hold, in the year 2109. The ledger's time does not
// get there.
const MaxInstant = Instant((1<<(64-idCounterBits) - 1) * int64(time.Millisecond))

// Time converts back, in UTC. Zero is the zero time.
func (i Instant) Time() time.Time {
	if i == 0 {
		return time.Time{}
	}
	return time.Unix(0, int64(i)).UTC()
}

// Add returns the instant d later.
func (i Instant) Add(d time.Duration) Instant { return i + Instant(d) }

// Sub returns the time from j to i.
func (i Instant) Sub(j Instant) time.Duration { return time.Duration(i - j) }

// ID numbers an allocation: milliseconds since the Unix epoch in the upper 42 bits, a counter in
// the lower 22. Ids rise, so rows are appended to the store's index. A store that was restored
// from an old backup does not give out a number twice, because time has passed. Zero is no id.
type ID uint64

const idCounterBits = 22

// idAfter is the id that follows last at a given time.
func idAfter(last ID, now Instant) ID {
	byTime := ID(min(max(0, now), MaxInstant)/Instant(time.Millisecond)) << idCounterBits
	return max(last+1, byTime)
}

// spareIDs is the number of ids at the end of the range that no ledger reaches. A row or meta that
// says that one of them was the last is wrong.
const spareIDs = 1 << 40

// nextID gives out an id. Ids of adopted engines may be ahead of the clock: none of them is given
// out again.
func (l *Ledger) nextID() ID {
	l.lastID = idAfter(l.lastID, l.now)
	for l.entry(l.lastID) != nil || l.spent.Contains(l.lastID) {
		l.lastID++
	}
	for first, left := l.spent.Min(); left && first < l.lastID; first, left = l.spent.Min() {
		l.spent.Delete(first)
	}
	return l.lastID
}

// mostSpent is how many ids ahead of the last one the ledger remembers whose allocations have
// ended. They take 1 MiB. If there are more, it forgets the one furthest ahead. A load forgets all
// of them.
const mostSpent = 1 << 16

// spend remembers an id that is not to be given out.
func (l *Ledger) spend(id ID) {
	if id <= l.lastID {
		return
	}
	if l.spent.Insert(id); l.spent.Len() > mostSpent {
		l.spent.PopMax()
	}
}

// Created is the moment at or after which the id was given out, to the millisecond; zero for no id.
func (id ID) Created() Instant {
	return Instant(id>>idCounterBits) * Instant(time.Millisecond)
}

// The text of an id is 13 characters of Crockford's base 32, lower case, of the number after a
// bijective mix. Consecutive allocations look very different, so that a prefix of a few characters
// names one.
const (
	idLength   = 13
	idAlphabet = "0123456789abcdefghjkmnpqrstvwxyz"
)

// ErrBadID is returned by ParseID.
var ErrBadID = errors.New("want 13 characters of 0-9 and a-z without i, l, o, u")

// String returns the id's text.
func (id ID) String() string {
	var text [idLength]byte
	n := mix(uint64(id))
	for i := idLength - 1; i >= 0; i-- {
		text[i] = idAlphabet[n&31]
		n >>= 5
	}
	return string(text[:])
}

// ParseID parses the result of String; upper case is fine. The error wraps ErrBadID.
func ParseID(text string) (ID, error) {
	if len(text) != idLength {
		return 0, fmt.Errorf("%q: %w", text, ErrBadID)
	}
	var n uint64
	for i := range idLength {
		c := text[i]
		if c >= 'A' && c <= 'Z' {
			c += 'a' - 'A'
		}
		digit := strings.IndexByte(idAlphabet, c)
		if digit < 0 || (i == 0 && digit > 15) {
			return 0, fmt.Errorf("%q: %w", text, ErrBadID)
		}
		n = n<<5 | uint64(digit)
	}
	return ID(unmix(n)), nil
}

// mix is a bijection on 64 bits: two rounds of xor-shift and multiplication by an odd number.
// unmix undoes it, with the multiplier's inverse modulo 2^64.
const (
	mixMultiplier = 0x9e3779b97f4a7c15
	mixInverse    = 0xf1de83e19937733d
)

func mix(n uint64) uint64 {
	n ^= n >> 32
	n *= mixMultiplier
	n ^= n >> 32
	n *= mixMultiplier
	return n ^ n>>32
}

func unmix(n uint64) uint64 {
	n ^= n >> 32
	n *= mixInverse
	n ^= n >> 32
	n *= mixInverse
	return n ^ n>>32
}
