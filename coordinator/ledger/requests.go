package ledger

import (
	"crypto/sha256"
	"encoding/binary"
)

// requestKey is a request id in its caller's scope: half of the SHA-256 of both. A day's request ids are a million and more; in this
// form they take some 150 bytes each, the garbage collector does not look at them, and nobody can make up one that passes for another's.
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
	return requestKey(sum[:]) // the first half
}

// request is what is known of a request id.
type request struct {
	hash uint64 // of the body
	id   ID
	ends link // where it is among those that are forgotten in time; zero while the allocation is live
}

func (r request) live() bool { return r.id != 0 && r.ends == 0 }

// requests knows the request ids of what is live, and for a while of what has ended.
type requests struct {
	known map[requestKey]request
	live  int // of those, the ones whose allocations are live
	ends  forgettings
	ended map[ID]link // the others, by their allocations
}

func newRequests() requests {
	return requests{known: make(map[requestKey]request), ends: newForgettings(), ended: make(map[ID]link)}
}

// find returns what is known; the zero request where nothing is.
func (r *requests) find(key requestKey) request { return r.known[key] }

// isOther reports whether it is remembered that an allocation that has ended was another request.
func (r *requests) isOther(id ID, key requestKey) bool {
	place, ended := r.ended[id]
	return ended && r.ends.at(place).key != key
}

// unlist takes what is remembered out of the list, unless it is not there.
func (r *requests) unlist(q request) {
	if q.ends != 0 {
		r.ends.remove(q.ends)
		delete(r.ended, q.id)
	}
}

// open makes a request id, which no live allocation has, that of one. What is remembered under it is forgotten.
func (r *requests) open(key requestKey, hash uint64, id ID) {
	if key == noRequest {
		return
	}
	r.unlist(r.known[key])
	r.known[key] = request{hash: hash, id: id}
	r.live++
}

// remember keeps the request id of an allocation that has ended, until a moment that is not before those of earlier calls. It
// belongs to a live one that has it by now.
func (r *requests) remember(key requestKey, hash uint64, id ID, until Instant) {
	if key == noRequest {
		return
	}
	q := r.known[key]
	switch {
	case !q.live():
		r.unlist(q)
	case q.id == id:
		r.live--
	default:
		return
	}
	place := r.ends.add(key, until)
	r.known[key], r.ended[id] = request{hash: hash, id: id, ends: place}, place
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
	for at, waits := r.next(); waits && at <= now; at, waits = r.next() {
		key := r.ends.at(r.ends.at(0).next).key
		r.unlist(r.known[key])
		delete(r.known, key)
	}
}

func (r *requests) next() (at Instant, ok bool) {
	first := r.ends.at(0).next
	return r.ends.at(first).until, first != 0
}

// forgettings is a list of remembered request ids by when they are forgotten, each of which can be taken out: what comes back and ends
// once more is in it once. It is in blocks, so that however long it is nothing in it is moved, and links are numbers, so that the garbage
// collector does not look at it.
type forgettings struct {
	blocks []*[forgettingBlock]forgetting
	places link // that were ever in use
	free   link // the first of those that are not now
}

// link is a place in the list. Place 0 is none: it stands between the last and the first.
type link uint32

type forgetting struct {
	key          requestKey
	until        Instant
	before, next link
}

const forgettingBlock = 512

func newForgettings() forgettings {
	return forgettings{blocks: []*[forgettingBlock]forgetting{{}}, places: 1}
}

func (l *forgettings) at(place link) *forgetting {
	return &l.blocks[place/forgettingBlock][place%forgettingBlock]
}

// add puts one at the end of the list.
func (l *forgettings) add(key requestKey, until Instant) link {
	place := l.free
	if place != 0 {
		l.free = l.at(place).next
	} else {
		if place = l.places; place%forgettingBlock == 0 {
			l.blocks = append(l.blocks, new([forgettingBlock]forgetting))
		}
		l.places++
	}
	last := l.at(0).before
	*l.at(place) = forgetting{key: key, until: until, before: last}
	l.at(last).next, l.at(0).before = place, place
	return place
}

// remove takes one out of the list, unless it is none.
func (l *forgettings) remove(place link) {
	if place == 0 {
		return
	}
	f := l.at(place)
	l.at(f.before).next, l.at(f.next).before = f.next, f.before
	f.next, l.free = l.free, place
}
