// Package callers is the agent's local API for those who start engines on its host:
// AllocationService and EngineService.
//
// It passes each call on to a coordinator in the name of its caller, and adds facts that the agent
// knows and the caller does not: the host of a request, the process of an engine, how it ended. It
// has the last word on the memory of a grant. It decides who may launch an engine as whom; package
// engine does the rest of a launch.
//
// It serves no socket. Package socket says who calls.
//
// All of it may be called from any goroutine.
package callers
