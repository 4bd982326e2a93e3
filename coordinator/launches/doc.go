// Package launches has the agents of hosts launch the engines of requests. While its coordinator
// leads, it follows the ledger's changes. When a request with a launch is granted, it reads the
// launch's row from the store and sends it to the host's agent. The agent answers by calls, which
// Begun and Failed turn into commands of the ledger. The ledger decides about further tries.
//
// An order is repeated until the allocation shows that it is done: every orderAgain, and when the
// host's agent attaches anew. An agent carries out an order for a grant once. Any goroutine may use
// a Launcher.
package launches
