// Package clusters reads external clusters, such as YARN's queues, while this coordinator leads:
// one poller for each provider that the ledger has. What they read goes through the loop of
// package commit like any command. Pollers may be used by any goroutine, a poller belongs to its
// own.
package clusters
