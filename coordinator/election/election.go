// Package election decides which coordinator may try to lead: Alone if there is one, Consul's
// session and lock if there are several. It decides nothing about the ledger. Two coordinators that
// both take themselves for the leader do no harm, because the store accepts commits of the latest
// epoch only. So an election ensures that there is a leader soon, not that there are never two.
//
// Many goroutines may use an Election. A Term belongs to the goroutine that campaigned for it,
// except Over.
package election

import "context"

// Leader is the leader, as far as it is known.
type Leader struct {
	// URL is the base of its address for other coordinators and for clients. It is empty if no
	// leader is known.
	URL string
	// Epoch is the epoch of its leadership; 0 if it was not announced yet.
	Epoch uint64
	// StoreID is the id of its store; empty if it was not announced yet.
	StoreID string
}

// Election is the part of one coordinator in an election.
type Election interface {
	// Run does the background work of the election until ctx ends. The other methods may be called
	// before and while it runs. Its end also ends a term.
	Run(ctx context.Context) error
	// Campaign waits until this coordinator may try to lead. The error is ctx's, or a permanent
	// one.
	Campaign(ctx context.Context) (Term, error)
	// Leader returns the leader, without blocking. changed is closed once this leader is out of
	// date.
	Leader() (leader Leader, changed <-chan struct{})
}

// Term is the time in which a coordinator may lead.
type Term interface {
	// Over is closed when the term has ended by itself. The lock was lost, or, by this machine's
	// own clock, it was not renewed for so long that another coordinator may have it.
	Over() <-chan struct{}
	// Announce announces the leadership: its epoch, and its store.
	Announce(ctx context.Context, epoch uint64, storeID string) error
	// Resign ends the term, so that another coordinator can lead at once. It must be called exactly
	// once, also after Over.
	Resign(ctx context.Context) error
}
