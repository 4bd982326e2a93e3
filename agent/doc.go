// Package agent is the agent of an engine host. It measures the machine, tracks the engines on it,
// reports to the coordinator and agrees with it on what runs here (Sync).
//
// On a Unix socket it serves AllocationService to those who start engines on this host. It adds
// its host to a request, passes the request on as the caller that the socket shows, and has the
// last word on memory when a grant comes back. It serves EngineService there, too: Launch starts
// an engine as its user, in a keeper that outlives the agent, and confirms it.
//
// It decides on no request: a coordinator does. It starts an engine only if a caller asks for that
// with Launch. It ends one only if the coordinator orders a Stop, or if a Launch fails before it
// is confirmed. When the agent ends, engines go on.
//
// This package has the loops and the services around them, and the state of each engine that they
// need (engine). Package tracker has what the agent knows of allocations, and statefile what
// survives its restart. Package socket knows its callers, contain keeps cgroups of engines, launch
// starts engines, process watches and signals them.
//
// Run owns every goroutine. Everything else that is exported may be called from any goroutine.
package agent
