// Package store keeps what a coordinator must not forget: allocations, hosts, the rules and providers that came over the API, and the
// number of the leadership that may write.
//
// A Store holds only what cannot be derived. What an account has used is summed up again from the allocations when a ledger
// is loaded, and what hosts measure comes back with their next report. A row is an encoded payload beside the columns that
// queries need, in SQL that embedded SQLite and PostgreSQL both speak; the sub-packages are the backends, and storetest is
// the suite that each of them passes.
//
// # Leadership
//
// Lead raises the stored epoch, and every Commit names the epoch under which its batch was decided. The store takes the batch
// only if that is still the stored one, in the same transaction, so a leader that was paused and comes back cannot write, and
// an empty batch asks whether one still leads. A Commit that returns an error ends its epoch for the Store it was called on:
// batches build on each other, so what comes after one that is missing, or may be missing, is refused with ErrDeposed until
// Lead is called again.
//
// # Concurrency
//
// All methods of a Store may be called from several goroutines. Commits of one epoch take effect in the order of their calls
// only if the caller makes them one after the other. Get, GetByRequest, History and Meta never wait for a Commit.
package store
