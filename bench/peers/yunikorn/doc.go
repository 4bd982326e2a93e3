// Command yunikorn is YuniKorn core as a peer of package peers: the scheduler in this process,
// without the shim for Kubernetes, without a web page, with default settings. It stores nothing:
// all its state is in memory.
//
// A queue of the workload is a leaf queue with a maximum and a limit for each user, an application
// is an application, and a request is as many allocations as its count. A release is not awaited,
// which is to YuniKorn's advantage.
package main
