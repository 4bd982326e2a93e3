// Command nomad is Nomad as a peer of package peers: one server in this process with default
// settings, except that development mode keeps its log of changes in memory. No call crosses a
// network: jobs are registered by a call inside the process, and hosts are written to the state, so
// that they need not report.
//
// The open edition of Nomad has no queues and no limits for users: it has an easier task than the
// others. A request is a batch job with the count of the request. Its grant is the moment at which
// its allocations are in the state. A release removes the job, and does not wait for the end of its
// allocations.
package main
