// Package launches has the agents of hosts launch the engines that requests come with. It follows
// the ledger's changes while its coordinator leads: when a request with a launch is granted, it reads
// the launch's row from the store and sends it to the host's agent. The agent answers by calls, which
// Begun and Failed make commands of the ledger. The ledger decides about further tries.
//
// Everything is repeated until the allocation shows that it is done: an order is sent again when the
// host's agent attaches anew, and each orderAgain. An agent carries out an order for a grant once.
// Any goroutine may use a Launcher.
package launches
