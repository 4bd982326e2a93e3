// Package peers lets a scheduler of another project run the workloads of bench/workloads. A program
// per peer (yunikorn, nomad) gives its Scheduler to Serve, and `make bench-peers` orders turns from
// each of them, between turns of ours.
//
// A peer is a process with orders on its standard input and answers on its standard output, each a
// JSON object: Order and Answer. The first order is Open, and there is one cluster for the life of
// the process, because peers have state of which a process cannot rid itself. bench/peers.go has
// the other end; its test runs the peer of package instant.
//
// One goroutine takes orders. Serve calls a Scheduler from many goroutines at once.
package peers
