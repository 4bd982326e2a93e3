// Package consul finds coordinators in Consul's catalog, and keeps a coordinator's registration
// there. It does not run elections (coordinator/election does, with the Client of this package)
// and calls no coordinator.
//
// Many goroutines may use a Client, a Finder and a Registration. A Finder and a Registration do
// their work in Run, in the goroutine of its caller; before and after, a Finder answers with what
// it knows. If Consul is away, or its answer cannot be right, what is known stays in use, and the
// question is asked again with growing, jittered pauses.
package consul
