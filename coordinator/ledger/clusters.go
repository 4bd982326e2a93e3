package ledger

import (
	"github.com/bursar/bursar/resource"
)

// QueueInfo is a queue of an external cluster with its account, for readers.
type QueueInfo struct {
	Address resource.Address
	Parent  string // path of the queue above; empty for the root
	Account AccountInfo
	// Report is what was read of it last, Known whether that still holds, and Asked when it was asked for.
	Report QueueReport
	Known  bool
	Asked  Instant
	// Available is the least that it and the queues above it have left, in the dimensions that any of them limits.
	Available resource.Vector
	// Unavailable says why it grants nothing; empty where it does.
	Unavailable string
}

// ClusterInfo is an external cluster, for readers.
type ClusterInfo struct {
	ClusterName
	Configured  bool // a provider is
	Known       bool // what was read last holds
	Asked       Instant
	Unavailable string // why nothing is granted there; empty where it is
	Queues      int    // in the last report, counted once for each partition
	Allocations int    // reserved and active ones that have a part there
}
