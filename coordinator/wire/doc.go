// Package wire converts between the ledger's values and the messages of the contract: values in
// both directions, ids, pages and their tokens, and the text of an explanation. Its functions keep
// no state: any goroutine may call them. Errors about requests are *ledger.FieldError, with the
// field, its value, and a correct value. Package coordinator maps errors to codes.
package wire
