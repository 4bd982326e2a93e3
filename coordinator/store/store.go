package store

import (
	"context"
	"time"

	"github.com/bursar/bursar/coordinator/ledger"
	"github.com/bursar/bursar/coordinator/seal"
	"github.com/bursar/bursar/label"
)

// Meta is the store's own data.
type Meta struct {
	// StoreID is the permanent id of the store. A copy made by Bursar gets a new one.
	StoreID string
	// Cluster is the name of the cluster that the store belongs to. Empty: none yet.
	Cluster string
	// Epoch is the number of the last leadership, zero before the first.
	Epoch uint64
	// Sequence is the ledger's revision after the last batch that changed a row.
	Sequence uint64
	// LastID is the last allocation's id after that batch.
	LastID ledger.ID
	// Time is the ledger's time after that batch, or after a later one that stored only its time;
	// zero before the first.
	Time ledger.Instant
	// Outages is the text of the times without a leader, see ledger.Outages.
	Outages string
	// Schema is the version of the tables.
	Schema int64
	// SealKeys are the store's secret keys. Only Lead returns them. The first Lead of a store makes
	// one, and a copy gets another.
	SealKeys seal.Keys
}

// Batch is the content of one Commit. An empty batch only checks the epoch.
type Batch struct {
	Epoch uint64
	ledger.Changes
	// KeepTime makes the ledger's time durable even if no row changes.
	KeepTime bool
}

// Empty reports whether the batch changes no row, and keeps no time and no outage.
func (b Batch) Empty() bool {
	return !b.KeepTime && b.Outages == "" && len(b.Transitions)+len(b.Hosts)+len(b.HostsRemoved)+len(b.Quotas)+len(b.QuotasRemoved)+
		len(b.Providers)+len(b.ProvidersRemoved)+len(b.Refusals)+len(b.RefusalsRemoved)+len(b.Launches)+len(b.LaunchesRemoved) == 0
}

// Take takes some live allocations from Load, see there.
type Take func(rest *ledger.Snapshot, rows []ledger.Allocation) error

// Store keeps the rows of a ledger. See the package comment for leadership and concurrency.
//
// Apart from the errors that the methods name, each may return ErrClosed, an error that wraps
// ErrFull, ErrReadOnly or ErrIO, and, if it reads rows, a *RowError.
type Store interface {
	HistoryStore
	Follower

	// Lead takes leadership: the stored epoch becomes max(stored+1, atLeast), durably, before it
	// returns. It waits for a Commit of this Store whose outcome was reported unknown, so that Load
	// shows its outcome.
	Lead(ctx context.Context, atLeast uint64) (Meta, error)

	// Load reads all rows from which a ledger is rebuilt: live allocations, hosts, rules,
	// providers, refusals, and the request ids of allocations that ended at or after rememberSince.
	// It omits refusals that it cannot read. ErrDeposed: epoch is not the stored one.
	//
	// With take the snapshot does not contain the live allocations. Load passes them to take, some
	// at a time, while it reads the others. They come in the order of their ids, but a store may
	// pass those from 2^63 on first. take must not keep the list, because its memory is used again.
	// take also gets the snapshot, which already contains everything else. Its error ends Load. The
	// first list, and only that one, is empty. If Load has to begin again, because a connection is
	// lost, there is another empty list: earlier lists do not count then.
	Load(ctx context.Context, epoch uint64, rememberSince time.Time, take Take) (ledger.Snapshot, error)

	// Commit makes a batch durable, all of it or nothing, if its epoch is the stored one. Of
	// several transitions of an id the last one is the row. A host, rule, provider or refusal that
	// is both removed and put is put.
	//
	// ErrDeposed: the epoch is another one, or was ended by an error; or the store was restored to
	// an earlier state, so that the stored sequence is not the one that this leadership's last
	// Commit, or its Lead, wrote; or another Lead has taken an epoch of the same number.
	// ErrUnknownOutcome: the batch may or may not be stored; Lead and Load find out. After any
	// other error it is not stored. A context that ends during the write makes the outcome unknown.
	// The caller may use the batch's memory again as soon as Commit has returned, with or without
	// an error.
	Commit(ctx context.Context, batch Batch) error

	// Get reads an allocation, live or ended. ErrNotFound: there is none, or no longer.
	Get(ctx context.Context, id ledger.ID) (ledger.Allocation, error)

	RequestIDs

	// Launch reads the row of a launch that Commit has put: the command for its agent. Neither Load
	// nor Follow reads these rows. ErrNotFound: there is none, or no longer.
	Launch(ctx context.Context, id ledger.ID) ([]byte, error)

	// Meta reads the store's own data.
	Meta(ctx context.Context) (Meta, error)

	// Close waits for calls in progress and closes the store. The second call does nothing.
	Close() error
}

// HistoryStore is the part of a Store for ended allocations.
type HistoryStore interface {
	// History reads a page of ended allocations, the latest end first. next is the token of the
	// next page, empty on the last. A page before the last may have fewer allocations than the
	// query asks for, even none: a call reads a bounded number of rows. Rows that the index of the
	// history lacks are searched one by one, so the answer does not depend on the index.
	// ErrBadToken: the query's token is not from this store.
	History(ctx context.Context, query HistoryQuery) (page []ledger.Allocation, next string, err error)

	// Ends lists ended allocations after a position in the history, the oldest first, at most
	// limit, without decoding them. If it returns fewer than limit, these are the last ones.
	Ends(ctx context.Context, after Position, limit int) ([]End, error)

	// Delete deletes allocations from the history, with their entries in its index, and returns how
	// many. It ignores an allocation that is gone, or that did not end at that time.
	Delete(ctx context.Context, ended []Position) (int, error)

	// IndexHistory continues to fill the index of the history, which History uses as far as it is
	// filled. It indexes the next allocations that ended before a time, at most limit, and returns
	// how many it has processed; if these are fewer than limit, there are no more. Calls wait for
	// each other, and commits wait for a small part of a call. ErrDeposed: the epoch is not that of
	// this Store's last Lead, or is over.
	IndexHistory(ctx context.Context, epoch uint64, before ledger.Instant, limit int) (int, error)

	// SweepIndex continues to remove entries without an allocation from the index of the history:
	// the oldest ones of each term, if they ended before a time. It reads at most limit entries:
	// those that it removes and one of each term. It begins at after, which is IndexBegin or the
	// result of the previous call. done: it came to the end.
	SweepIndex(ctx context.Context, after IndexEntry, before ledger.Instant, limit int) (at IndexEntry, done bool, err error)
}

// RequestIDs is the part of a Store that finds allocations by their request ids.
type RequestIDs interface {
	// Remembered lists the request ids that Load lists, from a position in the history backward:
	// those of allocations that ended at or after since, the latest end first. It returns about
	// limit, and next, the value of before for the next page: zero after the last one. A zero
	// before means the end of the history; then it includes rows whose columns have no end but
	// whose payloads have one.
	Remembered(ctx context.Context, before Position, since ledger.Instant, limit int) (page []ledger.Remembered, next Position, err error)

	// RememberedOf reads the request id of the latest allocation that a caller got under it.
	// ErrNotFound: there is none, or it is live, or it ended with Forget.
	RememberedOf(ctx context.Context, caller, requestID string) (ledger.Remembered, error)

	// GetByRequest reads the latest allocation that a caller got under a request id. ErrNotFound is
	// as for Get, and also for an allocation that ended with Forget.
	GetByRequest(ctx context.Context, caller, requestID string) (ledger.Allocation, error)
}

// End is an ended allocation in the result of Ends.
type End struct {
	Position
	// Caller is the charged caller, or a host: the allocation counts in its history. See CallerOf
	// and ledger.Allocation.Payer.
	Caller string
	// Bytes is its approximate size in the store, with its entries in indexes.
	Bytes int64
}

// RowOverhead is the size in bytes of a row without its payload and texts: numbers, headers, its
// entry in the index by end, and the largest number of its entries in the index of the history.
// Caller and request id are also in an index.
const RowOverhead = 100 + MostTerms*entryBytes

// HistoryQuery selects ended allocations. The zero query selects all, in pages of DefaultPage.
type HistoryQuery struct {
	// Labels must all match; the value "*" matches any value that is set.
	Labels label.Set
	// States are the ends to include; none means all.
	States []ledger.State
	// Phases are the phases to include; none means all.
	Phases []ledger.Phase
	// Name is the name to include; empty means all.
	Name   string
	HostID string
	// IDPrefix is the beginning of an id's text, lower case.
	IDPrefix string
	// PageSize is at most MaxPage; zero is DefaultPage.
	PageSize int
	// PageToken continues after the page that came with it.
	PageToken string
}

// Sizes of a page of History, in allocations.
const (
	DefaultPage = 100
	MaxPage     = 1000
)
