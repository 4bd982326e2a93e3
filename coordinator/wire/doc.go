// Package wire converts between the ledger's values and the messages of the contract: values in
// both directions, ids, pages and their tokens, and the words of an explanation. Its functions
// keep nothing: any goroutine may call them. Errors of requests are *ledger.FieldError and say
// which field, which value, and what would be right. Package coordinator decides which code a
// caller sees.
package wire
