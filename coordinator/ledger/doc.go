// Package ledger has the accounts and is the only place that decides who gets what.
//
// Everything that limits is an account: a host, a quota for a combination of label values, a queue
// of an external cluster and every queue above it. An allocation is one entry that charges several
// accounts at once: all of them or none. Requests that do not fit wait behind the account that is
// short, and are decided again when that account has more to give.
//
// The ledger is a pure state machine. It does no I/O, reads no clock, draws no random number and
// starts no goroutine: every command carries its time, and the same commands in the same order
// give the same state. It stores nothing. Changes returns what a batch of commands changed. The
// caller stores that, answers only then, and calls Durable: from then on the time of reservations
// and leases counts. A Ledger is not safe for concurrent use: one goroutine owns it.
package ledger
