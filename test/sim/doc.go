// Package sim runs the production cores of coordinator and agent in one goroutine, under a seeded scheduler: time, network,
// disk and processes are simulated, and every fault that they can have is drawn from the seed.
//
// A World has one coordinator (coordinator.Core over a store that survives crashes), several hosts (agent's tracker.Tracker
// beside a machine whose processes start, touch memory slowly, fill the page cache, fork and die), launchers that ask their
// agent, and gateways that ask the coordinator. Messages are delayed, lost, repeated and reordered, links are cut,
// commits fail or end with an unknown outcome, and either side crashes at any moment. After every step the invariants of
// design §12 are checked, among them by books that the callers keep; at the end the faults stop, and the world must come to rest.
//
// The same seed gives the same story. A failure prints it.
package sim
