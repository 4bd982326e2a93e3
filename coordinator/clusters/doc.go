// Package clusters reads external clusters, such as YARN's queues, while this coordinator leads. It
// runs one poller for each provider in the ledger. Readings go through the loop of package commit
// like any command. Any goroutine may use Pollers; a poller belongs to its own goroutine.
package clusters
