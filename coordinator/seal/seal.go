package seal

import (
	"crypto/hmac"
	"crypto/sha256"
	"encoding/binary"
	"time"

	"github.com/bursar/bursar/coordinator/ledger"
	"github.com/bursar/bursar/resource"
)

// The parts of a seal: version, key, when it was made in hours since 1970, and the code.
const (
	version  = 1
	headSize = 1 + 4 + 4
	codeSize = 16
	size     = headSize + codeSize
)

// slot is the step in which the time of a seal counts. Within it the seal of a grant stays the
// same, so that agents need not store a new one with each answer.
const slot = time.Hour

// ahead is how far a seal may be from the future: the ledger's time may have run ahead before the
// store was put back.
const ahead = 24 * time.Hour

// Sealer seals grants and verifies seals, at one moment. The zero Sealer seals nothing and believes
// nothing.
type Sealer struct {
	Keys Keys
	Now  ledger.Instant
	// Lifetime is how long a seal holds. It must not be longer than the ledger remembers ended
	// allocations: a ledger that has forgotten an end would believe the seal of an ended grant.
	Lifetime time.Duration
}

// Seal returns the seal of a grant for the agent of its host; nil: the grant gets none, because its
// engine does not run, or the ledger itself has it on an agent's word alone.
func (s Sealer) Seal(a *ledger.Allocation) []byte {
	if !s.Keys.Valid() || a.State != ledger.Active || a.Claimed != nil {
		return nil
	}
	key := string(s.Keys[:keySize])
	id := idOf(key)
	head := append(make([]byte, 0, size), version)
	head = append(head, id[:]...)
	head = binary.BigEndian.AppendUint32(head, uint32(s.Now/ledger.Instant(slot))) //nolint:gosec // until the year 2262 it fits
	return append(head, code(key, head, a)...)
}

// Vouches reports whether the store's coordinators have made the grant that a host's agent reports,
// and so lately that the ledger still knows whether it has ended.
func (s Sealer) Vouches(seal []byte, hostID string, a *ledger.Allocation) bool {
	if len(seal) != size || seal[0] != version {
		return false
	}
	head := seal[:headSize]
	key := s.Keys.find(keyID(head[1:5]))
	made := ledger.Instant(binary.BigEndian.Uint32(head[5:])) * ledger.Instant(slot)
	if key == "" || s.Now.Sub(made) > s.Lifetime || made.Sub(s.Now) > ahead {
		return false
	}
	granted := *a
	granted.HostID = hostID
	return hmac.Equal(seal[headSize:], code(key, head, &granted))
}

// code is the authentication code of all values of a grant that the ledger takes over from a
// report. It leaves out the values that only the agent knows: the process, its address, and
// measurements.
func code(key string, head []byte, a *ledger.Allocation) []byte {
	b := make([]byte, 0, 1024)
	b = append(append(b, "bursar seal\n"...), head...)
	b = binary.BigEndian.AppendUint64(b, uint64(a.ID))
	b = number(b, int64(a.Priority))
	for _, at := range [...]ledger.Instant{a.Created, a.Reserved, a.Confirmed} {
		b = number(b, int64(at))
	}
	for _, s := range [...]string{a.HostID, a.Caller, a.RequestID} {
		b = text(b, s)
	}
	b = number(b, int64(len(a.Labels)))
	for i := range a.Labels {
		b = text(text(b, a.Labels[i].Key), a.Labels[i].Value)
	}
	b = amounts(amounts(b, &a.Requested), &a.Entitled)
	b = number(b, int64(len(a.ApplicationIDs)))
	for _, s := range a.ApplicationIDs {
		b = text(b, s)
	}
	if acting := a.ActingUser(); acting != "" { // otherwise the code is that of versions that did not know the field
		b = text(b, acting)
	}
	mac := hmac.New(sha256.New, []byte(key))
	mac.Write(b)
	return mac.Sum(nil)[:codeSize]
}

func number(b []byte, n int64) []byte { return binary.AppendVarint(b, n) }

// text appends a text with its length before it, so that no two lists of texts are the same bytes.
func text(b []byte, s string) []byte { return append(number(b, int64(len(s))), s...) }

func amounts(b []byte, r *resource.Resource) []byte {
	b = number(vector(b, &r.Vector), int64(len(r.External)))
	for i := range r.External {
		x := &r.External[i]
		for _, s := range [...]string{x.Kind, x.Cluster, x.Path, x.Partition} {
			b = text(b, s)
		}
		b = vector(b, &x.Vector)
	}
	return b
}

// vector appends the dimensions that are set. Empty text ends the list.
func vector(b []byte, v *resource.Vector) []byte {
	for dimension, quantity := range v.All() {
		b = number(text(b, dimension), quantity)
	}
	return text(b, "")
}
