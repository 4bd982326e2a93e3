// Package cells simulates a fleet that is split into cells with one common limit. It is the
// evidence for ADR 55, and not part of the program.
//
// A cell is a coordinator with its own hosts and its own store. The limit has an owner, which
// leases shares of it to the cells. A cell grants from its share without asking the owner. One
// message from a cell to the owner asks for more units and gives back unneeded ones, and the owner
// answers it. Three rules keep the limit:
//
//   - The owner counts a share before it sends it. A cell lowers its share before it reports that.
//     So the sum of the counted shares is never more than the limit.
//   - A cell accepts only the answer to its latest question. So once the owner reads a question, no
//     earlier answer can raise the cell's share, however late it arrives.
//   - A lease begins, for the cell, at its question, and for the owner at its answer. The owner
//     waits longer, by the largest difference in speed between two clocks. The owner and the cells
//     do not compare the readings of their clocks.
//
// Engines outlive a lease and their units stay in use, unless engines are stopped with it: see
// Config.Stops.
//
// A World draws demand, delays, losses, repeats, crashes, partitions and clocks from a seed, and
// checks the rules after each step. It has no goroutine, and uses no real time.
package cells
