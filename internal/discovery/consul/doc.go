// Package consul finds coordinators in Consul's catalog, and maintains a coordinator's registration
// there. It does not run elections (coordinator/election does, with the Client of this package) and
// calls no coordinator.
//
// Client, Finder and Registration are safe for concurrent use. A Finder and a Registration do their
// work in Run, in the caller's goroutine; before and after Run, a Finder returns the last known
// list. If Consul is unavailable, or its answer is implausible, the last list stays in use, and the
// query is repeated with growing, jittered pauses.
package consul
