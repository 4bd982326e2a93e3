// Package ledger is the book of accounts and the only place that decides who gets what.
//
// Everything that limits is an account: a host, a quota for a combination of label values, a queue of an external cluster and every
// queue above it. An allocation is one entry that touches several accounts at once; it is written to all of them or to none. Requests that
// do not fit wait behind the account that is short, and are looked at again when exactly that account has more to give.
//
// The ledger is a pure state machine. It does no I/O, reads no clock, draws no random number and starts no goroutine:
// every command carries its time, and the same commands in the same order give the same state. It does not make itself
// durable either. Changes hands the caller what a batch of commands changed; the caller stores that and only then
// answers, and tells Durable, from when on reservations and leases count. A Ledger is not safe for concurrent use: one goroutine owns it.
package ledger
