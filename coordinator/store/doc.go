// Package store keeps what a coordinator must not lose: allocations, hosts, the rules and
// providers that came over the API, and the number of the leadership that may write.
//
// A Store has only what cannot be derived. The use of an account is added up again from the
// allocations when a ledger is loaded, and measurements come with the next reports of the hosts. A
// row is an encoded payload with the columns that queries need, in SQL that both embedded SQLite
// and PostgreSQL understand. The sub-packages are the backends, and storetest is the suite that
// each of them passes.
//
// # Leadership
//
// Lead raises the stored epoch, and every Commit names the epoch under which its batch was
// decided. The store accepts the batch only if that is still the stored epoch, in the same
// transaction. So a leader that was paused and comes back cannot write, and an empty batch checks
// whether the caller still leads. A Commit that returns an error ends its epoch for the Store it
// was called on: batches build on each other, so every batch after one that is missing, or may be
// missing, is refused with ErrDeposed until Lead is called again.
//
// # Concurrency
//
// All methods of a Store may be called from several goroutines. Commits of one epoch take effect
// in the order of their calls only if the caller makes them one after the other. Get,
// GetByRequest, Remembered, RememberedOf, History and Meta never wait for a Commit.
package store
