// Package sim runs the production cores of coordinator and agent in one goroutine, under a seeded
// scheduler. Time, network, disk, election and processes are simulated, and the seed draws every
// fault that they can have.
//
// A World has several coordinators (each a coordinator.Core) over one store. One of them leads
// because it holds Consul's lock, or believes that it does. It has several hosts (agent's
// tracker.Tracker next to a machine whose processes start, touch memory slowly, fill the page
// cache, fork and die), launchers that ask their agent, and gateways and readers that ask a
// coordinator. Many worlds have YARN clusters with queues that others use too, in which engines
// start applications with what they were granted.
//
// Messages are delayed, lost, repeated and reordered. Coordinators are killed, shut down, stopped
// and continued in the middle of anything, and cut off from Consul, from the store, from each
// other and from callers. Commits fail or end with an unknown outcome. The store is slow, goes
// away, is put back to an earlier state without notice, or is copied. Agents crash, machines
// reboot. Clocks of coordinators are minutes apart, and are set. ResourceManagers are slow or
// away, fail over and forget; queues are stopped, shrunk and removed; providers come and go, and
// are pointed at other clusters.
//
// After every step the simulation checks the invariants of design §12: by the audit of every
// ledger, by a second record of what was committed, by the record of what callers were told, and
// by the true state of the clusters. At the end the faults stop, and the world must come to rest.
//
// Callers ask for zeros of countables that nobody has, up to the limit of a message and of two of
// them together. They repeat requests with other waits, move parts between queues, and wait for
// hosts that lose their labels. Somebody reports hosts that do not exist. Rows are encoded as real
// stores do it; a row that cannot be encoded is a failure of its maker. Operators store rules.
// Files come and go that have rules with the same selectors, or with equally specific ones: in
// half of the worlds the store has such rules from the start.
//
// In a world with a crowd thousands of requests wait, each of a kind of its own, behind nested
// quotas and full hosts (crowd.go). The simulation holds there that nobody waits who fits, that
// those whose need drains are granted within a bound, that every hold ends, and that a heartbeat
// looks at few of them.
//
// In a world of starts callers elsewhere start engines (starts.go), many with a readiness and
// retries: coordinators read what is executed from the store and send orders to agents
// (startorders.go) by streams, which open late and break (attachment.go). Orders are late, lost or
// repeated, and so are the answers (startagent.go). Agents are killed between any two steps. No
// engine begins twice, except as a retry that counts: after one that has ended and of which nobody
// was told that it was ready. None is left running without a booking, each Start gets an answer,
// and a launch has its row until it needs no more tries (launchrows.go).
//
// The same seed gives the same story. A failure prints it.
package sim
