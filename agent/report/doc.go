// Package report keeps the coordinator and this host in agreement: it registers the host, sends
// heartbeats (Sync), does what their answers ask for, and takes leave when the agent ends.
//
// What a Sync says is the tracker's to decide. Which coordinator is called is the client's; this
// package keeps to the cluster that the host belongs to.
//
// Loop and WatchLeader are for a goroutine each. All that callers need to know of heartbeats may be
// asked from any goroutine.
package report
