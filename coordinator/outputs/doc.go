// Package outputs brings the output of engines to its readers at one coordinator. A reader has the
// leader order the agent of the engine's host to send it: the order has the coordinator's URL, and
// a ticket, a random secret. The agent calls the coordinator with the ticket, and its call is
// joined to the reader's. If the agent's call breaks, the package orders again from the next byte.
//
// It holds three messages for each reader: the agent sends no faster than the reader takes. A
// reader that takes nothing holds up its own agent's call alone. It decides about nobody's rights,
// and knows no ledger. Any goroutine may use a Readers.
package outputs
