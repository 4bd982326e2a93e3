package ledger

import "maps"

// byteSums are the bytes and the largest quantities of live allocations, by the usage that they
// count in.
type byteSums map[string]*byteSum

type byteSum struct {
	bytes, largest int64
	live           int
}

// add adds an allocation, or takes it away again. It counts on nobody if the name is empty.
func (s byteSums) add(name string, c *counted, by int) {
	if name == "" {
		return
	}
	sum := s[name]
	if sum == nil {
		sum = new(byteSum)
		s[name] = sum
	}
	sum.bytes += int64(by) * c.bytes
	sum.largest += int64(by) * c.largest
	if sum.live += by; sum.live == 0 {
		delete(s, name)
	}
}

// compareUsages compares the usages of callers, or of hosts' callers, with their allocations. It
// reports whether the audit goes on.
func (a *auditor) compareUsages(what string, has usages, want byteSums) bool {
	for name, t := range has {
		if !a.step() {
			return false
		}
		if has[name] != t { // it has gone in the meantime
			continue
		}
		switch sum := want[name]; {
		case sum == nil:
			a.reportf(2, "the bytes of each %s: %q has %d, and no allocations", what, name, t.bytes)
		case sum.bytes != t.bytes:
			a.reportf(2, "the bytes of each %s: %q has %d; its allocations have %d", what, name, t.bytes, sum.bytes)
		case sum.largest != t.largest:
			a.reportf(2, "the largest quantities of each %s: %q has %d; its allocations have %d", what, name, t.largest, sum.largest)
		}
		if _, said := a.full[t]; said != t.full() {
			a.reportFull(t.full())
		}
	}
	for name, sum := range want {
		if !a.step() {
			return false
		}
		if has[name] == nil && want[name] == sum {
			a.reportf(2, "the bytes of each %s: %q is not there; its allocations have %d", what, name, sum.bytes)
		}
	}
	return true
}

// compareFull checks that only callers that are there are said to be full.
func (a *auditor) compareFull() {
	for t := range a.full {
		if a.callers[t.name] != t && a.relays[t.name] != t {
			a.reportFull(false)
		}
	}
}

func (a *auditor) reportFull(is bool) {
	full, said := 0, 1
	if is {
		full, said = 1, 0
	}
	a.reportf(2, "callers with nearly as much as they may have: %d, and these or others are said to be: %d", full, said)
}

// compareHostBytes compares the bytes of a host with those of its allocations.
func (a *auditor) compareHostBytes(h *host, bytes int64, shares map[*usage]int64) {
	if h.bytes != bytes || (h.full != "") != (h.bytes >= a.cfg.HostLiveBytes) {
		a.reportf(2, "host %s: %d bytes, full: %q; its allocations have %d", h.ID, h.bytes, h.full, bytes)
	}
	if h.callers == nil && h.bytes >= a.hostShare() || h.callers != nil && !maps.Equal(h.callers, shares) {
		a.reportf(2, "host %s: bytes of %d callers, or of others than its allocations are of: %d", h.ID, len(h.callers), len(shares))
	}
}
