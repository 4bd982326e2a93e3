package callers

import (
	"sync"
	"time"

	"connectrpc.com/connect"

	"github.com/bursar/bursar/agent/socket"
	"github.com/bursar/bursar/internal/spelling"
)

const (
	// deniedEvery is how often one user's refused calls get an audit record.
	deniedEvery = 10 * time.Second
	// mostDenied is how many users are remembered. There may be as many as subordinate uids.
	mostDenied = 1024
	// shownID is how much of an id that a stranger has written stands in a record, in bytes.
	shownID = 64
)

// denials bounds the audit records of refused calls: a user may make many. The zero value is empty.
// Any goroutine may use it.
type denials struct {
	mu    sync.Mutex
	since map[uint32]denial // guarded by mu; by uid
}

// denial is the last record about a user, and how many calls had none since.
type denial struct {
	at   time.Time
	left int
}

// take reports whether a user's refused call gets a record, and how many before it had none.
func (d *denials) take(uid uint32, now time.Time) (left int, ok bool) {
	d.mu.Lock()
	defer d.mu.Unlock()
	last, known := d.since[uid]
	if known && now.Sub(last.at) < deniedEvery {
		last.left++
		d.since[uid] = last
		return 0, false
	}
	if !known && len(d.since) >= mostDenied {
		for other, of := range d.since {
			if now.Sub(of.at) >= deniedEvery {
				delete(d.since, other)
			}
		}
		if len(d.since) >= mostDenied {
			return 0, false
		}
	}
	if d.since == nil {
		d.since = make(map[uint32]denial)
	}
	d.since[uid] = denial{at: now}
	return last.left, true
}

// auditDenied writes an audit record of a call about an engine, if the call was refused because of
// its caller.
func (a *API) auditDenied(c *socket.Caller, call, id string, err error) {
	if connect.CodeOf(err) != connect.CodePermissionDenied {
		return
	}
	name, uid := "", ^uint32(0)
	if c != nil {
		name, uid = c.Actor.Name, c.UID
	}
	if left, ok := a.denials.take(uid, time.Now()); ok {
		a.log.Warn("a caller was refused", "audit", true, "call", call, "allocation_id", spelling.Cut(id, shownID), "caller", name, "uid", uid, "left_out", left)
	}
}
