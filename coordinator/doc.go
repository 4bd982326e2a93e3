// Package coordinator is the server that keeps the books: it takes the calls of agents, gateways and operators, lets the
// ledger decide them one after the other, makes what was decided durable, and only then answers.
//
// Core is the write path without goroutines, so that a simulator can drive it step by step. The writer around it adds the
// loop, the bounded queue and the goroutine that waits for the store. The services translate between the wire and the
// ledger's words, in the goroutine of each call. Server puts them behind one port, with health, metrics and shutdown.
//
// The package decides nothing about resources (that is the ledger's), knows no SQL (the store's) and authenticates nobody
// beyond telling a loopback connection from others.
//
// All exported methods of Server may be called from several goroutines. A Core belongs to one goroutine; a Batch that it
// handed out belongs to whoever commits it.
package coordinator
