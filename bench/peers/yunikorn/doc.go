// Command yunikorn is YuniKorn core as a peer of package peers: the scheduler of its own process,
// without the shim for Kubernetes, without a web page, with its settings as they are by default. It
// keeps nothing: all of its state is in memory.
//
// A queue of the workload is a leaf queue with a maximum and a limit for each user; an application
// is an application, a request as many allocations as its count. A release is not waited for,
// which is to YuniKorn's advantage.
package main
