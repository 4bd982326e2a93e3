// Package consul finds coordinators in Consul's catalog, and keeps one's own registration there. It elects nobody
// (coordinator/election does, with the Client of this package) and calls no coordinator.
//
// A Client, a Finder and a Registration may be used by many goroutines. A Finder and a Registration do their work in Run, which
// belongs to whoever calls it; before and after, a Finder answers with what it knows. Where Consul is away, or answers what
// cannot be right, what is known stays in use, and the question is asked again with growing, jittered pauses.
package consul
