// Command nomad is Nomad as a peer of package peers: one server in this process with its settings
// as they are by default, but in development mode, so that it keeps its log of changes in memory.
// Nothing crosses a network: jobs are registered by a call inside the process, and hosts are put
// into the state, so that they need not report.
//
// Nomad has no queues and no limits for users in its open edition: it is asked for less than the
// others. A request is a batch job whose count is that of the request. Its grant is the moment at
// which its allocations are in the state. A release is a job that is removed; that its allocations
// end is not waited for.
package main
