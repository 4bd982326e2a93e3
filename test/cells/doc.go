// Package cells simulates a fleet that is split into cells with one limit over all of them. It is
// the evidence of ADR 55, and no part of the program.
//
// A cell is a coordinator with its own hosts and its own store. The limit has an owner, which
// leases shares of it to the cells. A cell grants from its share without asking anybody. It asks
// the owner for more, and gives back what it does not need, in one message that the owner answers.
// Three rules keep the limit:
//
//   - The owner counts a share before it sends it. A cell lowers its share before it says so. The
//     sum of what the owner counts is never more than the limit.
//   - A cell takes only the answer to its latest question. So when the owner reads a question, no
//     earlier answer can raise the cell's share any more, however late it comes.
//   - A lease begins, for the cell, when it asked, and for the owner when it answered. The owner
//     waits for longer by as much as two clocks may differ in speed. What they show is not
//     compared.
//
// What engines use outlives a lease, unless engines are stopped with it: see Config.Stops.
//
// A World draws demand, delays, losses, repeats, crashes, partitions and clocks from a seed, and
// checks the rules after each step. It has no goroutine, and takes no time of the machine.
package cells
