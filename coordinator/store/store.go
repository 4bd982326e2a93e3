package store

import (
	"context"
	"time"

	"github.com/bursar/bursar/coordinator/ledger"
	"github.com/bursar/bursar/coordinator/seal"
	"github.com/bursar/bursar/label"
)

// Meta is what a store knows of itself.
type Meta struct {
	// StoreID names the store for good. A copy made by Bursar gets a new one.
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
	// Outages is the text of the times in which no coordinator led, see ledger.Outages.
	Outages string
	// Schema is the version of the tables.
	Schema int64
	// SealKeys are the store's secret keys, in the answer of Lead alone. The first Lead of a store
	// makes one, and a copy gets another.
	SealKeys seal.Keys
}

// Batch is what one Commit makes durable. An empty batch only checks the epoch.
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

// Take takes some live allocations from Load. See there.
type Take func(rest *ledger.Snapshot, rows []ledger.Allocation) error

// Store keeps the rows of a ledger. See the package comment for leadership and concurrency.
//
// Apart from the errors that the methods name, each may return ErrClosed, an error that wraps
// ErrFull, ErrReadOnly or ErrIO, and, if it reads rows, a *RowError.
type Store interface {
	HistoryStore
	Follower

	// Lead takes leadership: the stored epoch becomes max(stored+1, atLeast), durably, before it
	// returns. It waits for a Commit of this Store whose outcome was reported unknown, so that
	// Load shows its outcome.
	Lead(ctx context.Context, atLeast uint64) (Meta, error)

	// Load reads everything that a ledger is rebuilt from: live allocations, hosts, rules,
	// providers, refusals, and the request ids of allocations that ended at or after
	// rememberSince. A refusal that cannot be read is left out. ErrDeposed: epoch is not the
	// stored one.
	//
	// With take the live allocations are not in the snapshot: they are passed to it, some at a
	// time, while the others are read; in the order of their ids, but a store may have those from
	// 2^63 on before the others. It must not keep the list, whose memory is used again. Everything
	// else is in the snapshot before, which it gets, too. Its error ends Load. The first list is
	// empty, and no other one. If Load has to begin again, because a connection is lost, there is
	// another empty list: what was taken before does not count.
	Load(ctx context.Context, epoch uint64, rememberSince time.Time, take Take) (ledger.Snapshot, error)

	// Commit makes a batch durable, all of it or nothing, if its epoch is the stored one. Of
	// several transitions of an id the last one is the row. A host, rule, provider or refusal that
	// is both removed and put is put. ErrDeposed: the epoch is another one, or was ended by an
	// error; or the store was restored to an earlier state since then, so that the stored sequence
	// is not the one that this leadership's last Commit, or its Lead, wrote, or another Lead has
	// taken an epoch of the same number. ErrUnknownOutcome: the batch may or may not be stored;
	// Lead and Load find that out. After any other error it is not stored. A context that ends
	// while the batch is being written makes the outcome unknown. The caller may use the batch's
	// memory again as soon as Commit has returned, with or without an error.
	Commit(ctx context.Context, batch Batch) error

	// Get reads an allocation, live or ended. ErrNotFound: there is none, or not any more.
	Get(ctx context.Context, id ledger.ID) (ledger.Allocation, error)

	RequestIDs

	// Launch reads the row of a launch, which Commit has put: what its agent has to execute.
	// Neither Load nor Follow reads these rows. ErrNotFound: there is none, or not any more.
	Launch(ctx context.Context, id ledger.ID) ([]byte, error)

	// Meta reads what the store knows of itself.
	Meta(ctx context.Context) (Meta, error)

	// Close waits for calls in progress and closes the store. The second call does nothing.
	Close() error
}

// HistoryStore is what a Store does with what has ended.
type HistoryStore interface {
	// History reads a page of ended allocations, the one that ended last first. next is the token
	// of the page that follows, empty on the last. A page may hold fewer than asked for, even
	// none, before the last: a call looks at a bounded number of rows. What the index of the
	// history does not hold yet is searched row by row, so the answer does not depend on it.
	// ErrBadToken: the query's token is not from this store.
	History(ctx context.Context, query HistoryQuery) (page []ledger.Allocation, next string, err error)

	// Ends lists ended allocations after a place in the history, the oldest first, at most limit,
	// without decoding them. If it returns fewer than limit, these are the last ones.
	Ends(ctx context.Context, after Position, limit int) ([]End, error)

	// Delete deletes allocations from the history, with their entries in its index, and returns how
	// many. It ignores an allocation that is gone, or that did not end at that time.
	Delete(ctx context.Context, ended []Position) (int, error)

	// IndexHistory goes on to fill the index of the history, which History uses as far as it is
	// filled: the next allocations that ended before a time, at most limit. It returns how many it
	// has come past; if these are fewer than limit, there are no more. Calls wait for each other,
	// and commits wait for a small part of a call. ErrDeposed: the epoch is not that of this
	// Store's last Lead, or is over.
	IndexHistory(ctx context.Context, epoch uint64, before ledger.Instant, limit int) (int, error)

	// SweepIndex goes on to remove entries without an allocation from the index of the history, of
	// each term the oldest ones, if they ended before a time. It looks at no more entries than
	// limit: those that it removes and one of each term. after is where it begins, IndexBegin or
	// what the call before returned. done: it came to the end.
	SweepIndex(ctx context.Context, after IndexEntry, before ledger.Instant, limit int) (at IndexEntry, done bool, err error)
}

// RequestIDs is the part of a Store that finds allocations by their request ids.
type RequestIDs interface {
	// Remembered lists, from a place in the history backward, the request ids that Load lists:
	// those of allocations that ended at or after since, the one that ended last first. It returns
	// about limit, and next, which is before for the next page: zero after the last one. A zero
	// before stands for the end of the history; then rows are included whose columns say no end,
	// and that ended by their payload.
	Remembered(ctx context.Context, before Position, since ledger.Instant, limit int) (page []ledger.Remembered, next Position, err error)

	// RememberedOf reads the same of the latest allocation that a caller got under a request id.
	// ErrNotFound: there is none, or it is live, or it ended with Forget.
	RememberedOf(ctx context.Context, caller, requestID string) (ledger.Remembered, error)

	// GetByRequest reads the latest allocation that a caller got under a request id. ErrNotFound
	// as for Get; also for an allocation that ended with Forget.
	GetByRequest(ctx context.Context, caller, requestID string) (ledger.Allocation, error)
}

// End is an ended allocation as Ends reads it.
type End struct {
	Position
	// Caller is the caller who is charged for it, or a host: it counts in the history of that one.
	// See CallerOf and ledger.Allocation.Payer.
	Caller string
	// Bytes is about how many bytes it takes in the store, with its entries in indexes.
	Bytes int64
}

// RowOverhead is what a row takes apart from its payload and its texts, in bytes: numbers,
// headers, its entry in the index by end, and as many as it may have in the index of the history.
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
