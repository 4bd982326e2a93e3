// Package election says which coordinator may try to lead: Alone if there is one, Consul's session
// and lock if there are several. It decides nothing about the ledger. Two coordinators that
// believe to lead at once do no harm, because the store takes commits of the latest epoch only. So
// an election makes sure that there is a leader soon, not that there are never two.
//
// Many goroutines may use an Election. A Term belongs to the one that campaigned for it, except
// Over.
package election

import "context"

// Leader is who leads, as far as it is known.
type Leader struct {
	// URL is the base of its address for other coordinators and for clients. It is empty if no
	// leader is known.
	URL string
	// Epoch is that of its leadership; 0 if it was not announced yet.
	Epoch uint64
	// StoreID names the store that it leads on; empty if it was not announced yet.
	StoreID string
}

// Election is one coordinator's part in finding a leader.
type Election interface {
	// Run does what the election needs to have done in the background, until ctx ends. The others
	// may be called before and while it runs; a term ends with it.
	Run(ctx context.Context) error
	// Campaign waits until this coordinator may try to lead. The error is ctx's, or one that no
	// waiting mends.
	Campaign(ctx context.Context) (Term, error)
	// Leader returns who leads, without blocking. changed is closed once that is not the latest
	// any more.
	Leader() (leader Leader, changed <-chan struct{})
}

// Term is the time in which a coordinator may lead.
type Term interface {
	// Over is closed when the term has ended by itself. The lock was lost, or by this machine's
	// own clock it could not be renewed for so long that another coordinator may have it.
	Over() <-chan struct{}
	// Announce tells everybody that the leadership has begun: its epoch, and the store that it is
	// of.
	Announce(ctx context.Context, epoch uint64, storeID string) error
	// Resign ends the term, so that another coordinator can lead at once. It is called exactly
	// once, also after Over.
	Resign(ctx context.Context) error
}
