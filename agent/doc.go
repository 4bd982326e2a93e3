// Package agent is the agent of an engine host. It measures the machine, tracks the engines on it,
// reports to the coordinator and agrees with it on the engines of its host (Sync).
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
// This package reads the configuration, measures the machine, and connects the parts, which are
// packages below it. Package callers is the local API, engine looks after engines, and report talks
// to the coordinator. Package hoststate has the tracker under its lock, and statefile keeps its
// state over a restart. Package machine measures resources besides memory and cpu. Package socket
// knows callers, contain keeps cgroups of engines, launch starts engines, process watches and
// signals them.
//
// Run owns every goroutine. Everything else that is exported may be called from any goroutine.
package agent
