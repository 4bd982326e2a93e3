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
	node nodeIndex // where it is among those that are forgotten in time; zero while the allocation is live
}

func (r request) live() bool { return r.id != 0 && r.node == 0 }

// requests knows the request ids of what is live, and for a while of what has ended.
type requests struct {
	known    map[requestKey]request
	live     int // of those, the ones whose allocations are live
	expiries expiryList
	ended    map[ID]nodeIndex // the others, by their allocations
}

func newRequests() requests {
	return requests{known: make(map[requestKey]request), expiries: newExpiryList(), ended: make(map[ID]nodeIndex)}
}

// find returns what is known; the zero request where nothing is.
func (r *requests) find(key requestKey) request { return r.known[key] }

// isOther reports whether it is remembered that an allocation that has ended was another request.
func (r *requests) isOther(id ID, key requestKey) bool {
	place, ended := r.ended[id]
	return ended && r.expiries.at(place).key != key
}

// unlistExpiry takes what is remembered out of the list, unless it is not there.
func (r *requests) unlistExpiry(q request) {
	if q.node != 0 {
		r.expiries.remove(q.node)
		delete(r.ended, q.id)
	}
}

// add makes a request id, which no live allocation has, that of one. What is remembered under it is forgotten.
func (r *requests) add(key requestKey, hash uint64, id ID) {
	if key == noRequest {
		return
	}
	r.unlistExpiry(r.known[key])
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
		r.unlistExpiry(q)
	case q.id == id:
		r.live--
	default:
		return
	}
	place := r.expiries.add(key, until)
	r.known[key], r.ended[id] = request{hash: hash, id: id, node: place}, place
}

// drop forgets the request id of a live allocation, which may then be used again.
func (r *requests) drop(key requestKey, id ID) {
	if q := r.known[key]; q.live() && q.id == id {
		delete(r.known, key)
		r.live--
	}
}

// expire drops what is due, and next says when something is.
func (r *requests) expire(now Instant) {
	for at, waits := r.next(); waits && at <= now; at, waits = r.next() {
		key := r.expiries.at(r.expiries.at(0).next).key
		r.unlistExpiry(r.known[key])
		delete(r.known, key)
	}
}

func (r *requests) next() (at Instant, ok bool) {
	first := r.expiries.at(0).next
	return r.expiries.at(first).until, first != 0
}

// expiryList is a list of remembered request ids by when they are forgotten, each of which can be taken out: what comes back and ends
// once more is in it once. It is in blocks, so that however long it is nothing in it is moved, and links are numbers, so that the garbage
// collector does not look at it.
type expiryList struct {
	blocks []*[nodesPerBlock]expiryNode
	used   nodeIndex // that were ever in use
	free   nodeIndex // the first of those that are not now
}

// nodeIndex is a place in the list. Place 0 is none: it stands between the last and the first.
type nodeIndex uint32

type expiryNode struct {
	key          requestKey
	until        Instant
	before, next nodeIndex
}

const nodesPerBlock = 512

func newExpiryList() expiryList {
	return expiryList{blocks: []*[nodesPerBlock]expiryNode{{}}, used: 1}
}

func (l *expiryList) at(place nodeIndex) *expiryNode {
	return &l.blocks[place/nodesPerBlock][place%nodesPerBlock]
}

// add puts one at the end of the list.
func (l *expiryList) add(key requestKey, until Instant) nodeIndex {
	place := l.free
	if place != 0 {
		l.free = l.at(place).next
	} else {
		if place = l.used; place%nodesPerBlock == 0 {
			l.blocks = append(l.blocks, new([nodesPerBlock]expiryNode))
		}
		l.used++
	}
	last := l.at(0).before
	*l.at(place) = expiryNode{key: key, until: until, before: last}
	l.at(last).next, l.at(0).before = place, place
	return place
}

// remove takes one out of the list, unless it is none.
func (l *expiryList) remove(place nodeIndex) {
	if place == 0 {
		return
	}
	f := l.at(place)
	l.at(f.before).next, l.at(f.next).before = f.next, f.before
	f.next, l.free = l.free, place
}
