package ledger

// A holder is the record of a share for which something is, or was, held. It exists also without
// requests of the share, and it survives a change of the rules: a caller that cancels all requests
// and asks again is no newcomer. It is forgotten when its last hold has been over for as long as it
// lasted. Accounts rest for as long, so that there are hardly more holders than accounts that rest.
type holder struct {
	key    string  // of the share
	claims int     // its present holds
	shared *claim  // the only one, on shared accounts; nil: none is
	rests  Instant // until then it gets none on shared accounts
	closed Instant // until then it gets none at all: the last was on shared accounts
	last   Instant // when the last one began or ended
	until  Instant // when it may be forgotten
	index  int     // in holders.ended
}

// holders are all of them, by share.
type holders struct {
	byShare map[string]*holder
	ended   heap[*holder] // those without a present hold, by when they may be forgotten
	// forgotten is the latest end of a hold whose holder is forgotten. A share that is not known
	// counts as held then: it does not come before those who have waited since.
	forgotten Instant
}

func newHolders() holders {
	return holders{
		byShare: make(map[string]*holder),
		ended: heap[*holder]{
			before: func(a, b *holder) bool { return a.until < b.until || a.until == b.until && a.key < b.key },
			moved:  func(h *holder, i int) { h.index = i },
		},
	}
}

// last is when something was last held for a share.
func (hs *holders) last(key string) Instant {
	if h := hs.byShare[key]; h != nil {
		return h.last
	}
	return hs.forgotten
}

// begin counts a hold that begins.
func (hs *holders) begin(key string, now Instant) {
	hs.forget(now)
	h := hs.byShare[key]
	switch {
	case h == nil:
		h = &holder{key: key}
		hs.byShare[key] = h
	case h.claims == 0:
		hs.ended.remove(h.index)
	}
	h.claims++
	h.last = now
}

// end counts a hold that ends. The share, and the accounts, rest until then.
func (hs *holders) end(c *claim, now, rests Instant) {
	h := hs.byShare[c.share.key]
	h.rests = max(h.rests, rests)
	if h.shared == c {
		h.shared, h.closed = nil, rests
	}
	h.claims--
	h.last, h.until = now, max(h.until, rests)
	if h.claims == 0 {
		hs.ended.push(h)
	}
	hs.forget(now)
}

// forget forgets those that are past.
func (hs *holders) forget(now Instant) {
	for len(hs.ended.items) > 0 && hs.ended.items[0].until <= now {
		h := hs.ended.items[0]
		hs.ended.remove(0)
		delete(hs.byShare, h.key)
		hs.forgotten = max(hs.forgotten, h.last)
	}
}

// mayHold reports whether accounts may be held for a request of a share now, shared ones among them
// or only hosts. own is how many holds the request has. If they may not, again is when; zero: when
// another hold of the share ends.
func (hs *holders) mayHold(key string, shared bool, own int, now Instant) (may bool, again Instant) {
	h := hs.byShare[key]
	switch {
	case h == nil:
		return true, 0
	case shared && h.claims > own, !shared && h.shared != nil:
		return false, 0
	case shared:
		again = h.rests
	default:
		again = h.closed
	}
	if again <= now {
		return true, 0
	}
	return false, again
}
