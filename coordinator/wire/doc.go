// Package wire is the way between the ledger's values and the messages of the contract: conversion in both directions, ids, pages
// and their tokens, and the words of an explanation. Its functions keep nothing: any goroutine may call them. Errors of requests are
// *ledger.FieldError and say which field, which value, and what would be right; which code a caller sees is package coordinator's.
package wire
