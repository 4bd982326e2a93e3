// Package sending sends the output of engines to coordinators, as their leader orders. A
// coordinator that an order names must be among the agent's own, which the agent calls as it does
// for heartbeats. Each order has a call on a connection of its own: a reader that takes nothing
// holds up nothing else. Any goroutine may use a Sender.
package sending
