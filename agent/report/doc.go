// Package report keeps the coordinator and this host in agreement: it registers the host, sends
// heartbeats (Sync), carries out their answers, and takes leave when the agent ends.
//
// The tracker makes each Sync and judges its answer. The client chooses the coordinator; this
// package keeps to the cluster that the host belongs to.
//
// Loop and WatchLeader are for a goroutine each. Any goroutine may call the functions that tell
// callers of heartbeats.
package report
