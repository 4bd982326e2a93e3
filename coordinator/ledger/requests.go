package ledger

import (
	"crypto/sha256"
	"encoding/binary"
)

// requestKey is a request id in its caller's scope: half of the SHA-256 of both. A day has a
// million request ids and more. In this form each takes about 150 bytes, the garbage collector
// does not scan them, and nobody can make up an id that has the key of another.
type requestKey [16]byte

// noRequest is the key of requests without a request id.
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

// request is the record of a request id.
type request struct {
	hash uint64 // of the body
	id   ID
	node nodeIndex // its node in the expiry list; zero while the allocation is live
}

func (r request) live() bool { return r.id != 0 && r.node == 0 }

// requests has the request ids of live allocations, and for some time of ended ones.
type requests struct {
	// recalling says that ids are remembered that are not here yet: see Recall.
	recalling bool
	known     map[requestKey]request
	live      int // how many of them have live allocations
	expiries  expiryList
	ended     map[ID]nodeIndex // the nodes of the others, by their allocations
}

func newRequests() requests {
	return requests{known: make(map[requestKey]request), expiries: newExpiryList(), ended: make(map[ID]nodeIndex)}
}

// find returns the record; the zero request if there is none.
func (r *requests) find(key requestKey) request { return r.known[key] }

// isOther reports whether an allocation that has ended is remembered as another request.
func (r *requests) isOther(id ID, key requestKey) bool {
	place, ended := r.ended[id]
	return ended && r.expiries.at(place).key != key
}

// unlistExpiry takes a remembered request out of the expiry list, if it is there.
func (r *requests) unlistExpiry(q request) {
	if q.node != 0 {
		r.expiries.remove(q.node)
		delete(r.ended, q.id)
	}
}

// add gives a request id, which no live allocation has, to a live allocation. It replaces an
// earlier record of the id.
func (r *requests) add(key requestKey, hash uint64, id ID) {
	if key == noRequest {
		return
	}
	r.unlistExpiry(r.known[key])
	r.known[key] = request{hash: hash, id: id}
	r.live++
}

// remember keeps the request id of an allocation that has ended, until a time that is not before
// those of earlier calls. If a live allocation has the id now, it keeps it.
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

// recall remembers an allocation that ended before this ledger was restored. A later record of the
// allocation or of the request id stays.
func (r *requests) recall(key requestKey, hash uint64, id ID, until Instant) {
	q := r.known[key]
	if _, ended := r.ended[id]; ended || key == noRequest || q.live() || q.id != 0 && r.expiries.at(q.node).until >= until {
		return
	}
	r.unlistExpiry(q)
	place := r.expiries.insert(key, until)
	r.known[key], r.ended[id] = request{hash: hash, id: id, node: place}, place
}

// drop forgets the request id of a live allocation, which may then be used again.
func (r *requests) drop(key requestKey, id ID) {
	if q := r.known[key]; q.live() && q.id == id {
		delete(r.known, key)
		r.live--
	}
}

// expire drops the records that are due. next returns when the next one is due.
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

// expiryList is a list of remembered request ids, ordered by when they are forgotten. Each can be
// removed, so that an allocation that comes back and ends again is in it once. It is stored in
// blocks, so that a long list is never copied. Its links are numbers, so that the garbage
// collector does not scan it.
type expiryList struct {
	blocks []*[nodesPerBlock]expiryNode
	used   nodeIndex // the number of nodes that were ever in use
	free   nodeIndex // the first node that is not in use now
}

// nodeIndex is the index of a node in the list. Node 0 is no entry: it is between the last and the
// first one.
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

// add appends a node to the list.
func (l *expiryList) add(key requestKey, until Instant) nodeIndex { return l.addBefore(0, key, until) }

// insert adds a node at the place of its time. It searches from the front: recalled records come in
// order from the last to the first.
func (l *expiryList) insert(key requestKey, until Instant) nodeIndex {
	at := l.at(0).next
	for at != 0 && l.at(at).until < until {
		at = l.at(at).next
	}
	return l.addBefore(at, key, until)
}

// addBefore adds a node before another one, or at the end of the list if that is node 0.
func (l *expiryList) addBefore(next nodeIndex, key requestKey, until Instant) nodeIndex {
	place := l.free
	if place != 0 {
		l.free = l.at(place).next
	} else {
		if place = l.used; place%nodesPerBlock == 0 {
			l.blocks = append(l.blocks, new([nodesPerBlock]expiryNode))
		}
		l.used++
	}
	before := l.at(next).before
	*l.at(place) = expiryNode{key: key, until: until, before: before, next: next}
	l.at(before).next, l.at(next).before = place, place
	return place
}

// remove takes a node out of the list, unless it is node 0.
func (l *expiryList) remove(place nodeIndex) {
	if place == 0 {
		return
	}
	f := l.at(place)
	l.at(f.before).next, l.at(f.next).before = f.next, f.before
	f.next, l.free = l.free, place
}
