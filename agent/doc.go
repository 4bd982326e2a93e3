// Package agent is the agent of an engine host. It measures the machine, tracks the engines on it,
// reports to the coordinator and agrees with it on what runs here (Sync). On a Unix socket it
// serves AllocationService to those who start engines on this host: it adds its host to a request,
// passes the request on as the caller that the socket shows, and has the last word on memory when
// a grant comes back. It serves EngineService there, too: Launch starts an engine as its user, in
// a keeper that outlives the agent, and confirms it.
//
// What the agent knows of allocations is in tracker, what survives its own restart in statefile.
// Package socket knows its callers, contain keeps cgroups of engines, launch starts engines,
// process watches and signals them. This package is the loops and the services around them. It
// keeps no books and decides no request. It starts an engine only if a caller asks for that with
// Launch, and ends one only if the coordinator orders a Stop, or if a Launch fails before it is
// confirmed. When the agent ends, engines go on.
//
// Run owns every goroutine. Everything else that is exported may be called from any goroutine.
package agent
