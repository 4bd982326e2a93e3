package ledger

import (
	"crypto/sha256"
	"encoding/binary"
)

// requestKey is a request id in its caller's scope: half of the SHA-256 of both. A day's request ids are a million and more; in this
// form they take 64 bytes each, the garbage collector does not look at them, and nobody can make up one that passes for another's.
type requestKey [16]byte

// noRequest is the key of what came without a request id.
var noRequest requestKey //nolint:gochecknoglobals // the zero value, never changed

func keyOf(caller, requestID string) requestKey {
	if requestID == "" {
		return noRequest
	}
	var room [256]byte
	text := binary.AppendUvarint(room[:0], uint64(len(caller)))
	text = append(append(text, caller...), requestID...)
	sum := sha256.Sum256(text)
	return requestKey(sum[:16])
}

// request is what is known of a request id.
type request struct {
	hash  uint64 // of the body
	id    ID
	until Instant // when it is forgotten; zero while the allocation is live
}

func (r request) live() bool { return r.id != 0 && r.until == 0 }

// requests knows the request ids of what is live, and for a while of what has ended.
type requests struct {
	known map[requestKey]request
	live  int // of those, the ones whose allocations are live
	ends  forgettings
}

func newRequests() requests { return requests{known: make(map[requestKey]request)} }

// find returns what is known; the zero request where nothing is.
func (r *requests) find(key requestKey) request { return r.known[key] }

// ended is how many are remembered.
func (r *requests) ended() int { return len(r.known) - r.live }

// open makes a request id, which no live allocation has, that of one. What is remembered under it is forgotten.
func (r *requests) open(key requestKey, hash uint64, id ID) {
	if key == noRequest {
		return
	}
	r.known[key] = request{hash: hash, id: id}
	r.live++
}

// remember keeps the request id of an allocation that has ended, until a moment that is not before those of earlier calls. It
// belongs to a live one that has it by now.
func (r *requests) remember(key requestKey, hash uint64, id ID, until Instant) {
	if key == noRequest {
		return
	}
	if q := r.known[key]; q.live() {
		if q.id != id {
			return
		}
		r.live--
	}
	r.known[key] = request{hash: hash, id: id, until: until}
	r.ends.push(forgetting{key, until})
}

// drop forgets the request id of a live allocation, which may then be used again.
func (r *requests) drop(key requestKey, id ID) {
	if q := r.known[key]; q.live() && q.id == id {
		delete(r.known, key)
		r.live--
	}
}

// forget drops what is due, and next says when something is.
func (r *requests) forget(now Instant) {
	for {
		f, waits := r.ends.first()
		if !waits || f.at > now {
			return
		}
		r.ends.pop()
		// Else it is of an allocation that came back, or ended once more.
		if q, known := r.known[f.key]; known && q.until == f.at {
			delete(r.known, f.key)
		}
	}
}

func (r *requests) next() (at Instant, ok bool) {
	f, waits := r.ends.first()
	return f.at, waits
}

// forgetting is when a request id is dropped, if that is still what is known of it then.
type forgetting struct {
	key requestKey
	at  Instant
}

// forgettings is a queue by time, in blocks, so that however long it is nothing in it is ever moved.
type forgettings struct {
	head, tail *forgettingBlock
	begin, end int // in head, in tail
}

type forgettingBlock struct {
	list [512]forgetting
	next *forgettingBlock
}

func (q *forgettings) push(f forgetting) {
	switch {
	case q.tail == nil:
		q.head = &forgettingBlock{}
		q.tail = q.head
	case q.end == len(q.tail.list):
		q.tail.next = &forgettingBlock{}
		q.tail, q.end = q.tail.next, 0
	}
	q.tail.list[q.end] = f
	q.end++
}

func (q *forgettings) first() (f forgetting, ok bool) {
	if q.head == nil || (q.head == q.tail && q.begin == q.end) {
		return f, false
	}
	return q.head.list[q.begin], true
}

// pop takes out the first.
func (q *forgettings) pop() {
	if q.begin++; q.begin == len(q.head.list) {
		if q.head = q.head.next; q.head == nil {
			q.tail, q.end = nil, 0
		}
		q.begin = 0
	}
}
