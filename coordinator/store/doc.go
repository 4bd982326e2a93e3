// Package store keeps the durable state of a coordinator: allocations, hosts, the rules and
// providers that came over the API, and the number of the leadership that may write.
//
// A Store has only state that cannot be derived. When a ledger is loaded, it adds up the use of an
// account from the allocations, and measurements come with the next reports of the hosts. A row is
// an encoded payload with the columns that queries need, in SQL that both embedded SQLite and
// PostgreSQL understand. The sub-packages are the backends, and storetest is the suite that each of
// them passes.
//
// # Leadership
//
// Lead raises the stored epoch, and every Commit names the epoch of its batch. The store accepts
// the batch only if that is still the stored epoch, in the same transaction. So a leader that was
// paused and comes back cannot write, and an empty batch checks whether the caller still leads. A
// Commit that returns an error ends its epoch for its Store. The reason is that batches build on
// each other: if a batch is missing, or may be missing, all later ones get ErrDeposed until Lead is
// called again.
//
// # Concurrency
//
// All methods of a Store may be called from several goroutines. Commits of one epoch take effect
// in the order of their calls only if the caller makes them one after the other. Get,
// GetByRequest, Remembered, RememberedOf, History and Meta never wait for a Commit.
package store
