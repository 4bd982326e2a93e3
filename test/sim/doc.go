// Package sim runs the production cores of coordinator and agent in one goroutine, under a seeded scheduler: time, network,
// disk, election and processes are simulated, and every fault that they can have is drawn from the seed.
//
// A World has several coordinators (each a coordinator.Core) over one store, of which one leads because it holds Consul's
// lock, or believes to; several hosts (agent's tracker.Tracker beside a machine whose processes start, touch memory slowly,
// fill the page cache, fork and die); launchers that ask their agent, and gateways and readers that ask a coordinator. Many worlds
// have YARN clusters with queues, which others use too, and in which engines start applications with what they were granted.
//
// Messages are delayed, lost, repeated and reordered. Coordinators are killed, shut down, stopped and continued in the
// middle of anything, and cut off from Consul, from the store, from each other and from callers. Commits fail or end with an
// unknown outcome. The store is slow, goes away, is put back to an earlier state behind everybody's back, or is copied.
// Agents crash, machines reboot. Clocks of coordinators are minutes apart, and are set. ResourceManagers are slow, away, fail over and forget; queues are stopped, shrunk and taken away;
// providers come and go, and lead to other clusters.
//
// After every step the invariants of design §12 are checked: by the audit of every ledger, by a second set of books over what
// was committed, by the books that the callers keep, and by what is true in the clusters. At the end the faults stop, and the world must
// come to rest.
//
// Callers ask for zeros of countables that nobody has, up to what a message may hold and what two of them make together; they repeat
// requests with other waits, move parts between queues, and wait for hosts that lose their labels. Somebody reports hosts that nobody has. Rows
// are encoded as real stores do it, and one that cannot be is a failure of whoever has made it. Operators store rules, and files that have
// rules with the same selectors, or with some that tie with them, come and go: in half of the worlds the store has such rules from the start.
//
// The same seed gives the same story. A failure prints it.
package sim
