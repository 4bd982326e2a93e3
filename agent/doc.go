// Package agent is the agent of an engine host. It measures the machine, tracks the engines on it, reports to the coordinator and
// agrees with it on what runs here (Sync), and serves AllocationService on a Unix socket to whoever starts engines on this
// host: it adds its host to a request, passes it on as the caller that the socket shows it to be, and has the last word on memory
// when a grant comes back.
//
// What it knows of allocations is in tracker, what survives its own restart in statefile, and the handling of processes in
// process; this package is the loops and the server around them. It keeps no books and decides no request, starts no engine, and ends
// one only where the coordinator orders a Stop. When it ends itself, engines go on.
//
// Run owns every goroutine. Everything else that is exported may be called from any goroutine.
package agent
