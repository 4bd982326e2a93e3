// Package peers lets a scheduler of another project run the workloads of bench/workloads. A program
// per peer (yunikorn, nomad) passes its Scheduler to Serve, and `make bench-peers` orders turns of
// each of them, between our turns.
//
// A peer is a process that reads orders from its standard input and writes answers to its standard
// output, each a JSON object: Order and Answer. The first order is Open. There is one cluster for
// the life of the process, because peers have global state. bench/peers.go is the other end; its
// test runs the peer of package instant.
//
// One goroutine handles the orders. Serve calls a Scheduler from many goroutines at once.
package peers
