package peers

// Scheduler is a peer. Its methods may be called by several goroutines at once, except Open, which
// is called once and first, and Close, which is called once and last.
type Scheduler interface {
	// Open makes the cluster and returns the version of the peer. After that the scheduler calls
	// granted for each grant, with the request's name and the number of its new allocations.
	// granted does not block.
	Open(c Cluster, granted func(name string, allocations int)) (version string, err error)

	// Submit submits requests of one application and does not wait for their grants.
	Submit(requests []Request) error

	// Release ends a request whose allocations were all granted. It need not wait until the
	// scheduler has reclaimed the resources.
	Release(r Request) error

	Close() error
}

// Request requests Count equal allocations.
type Request struct {
	Name     string // unique
	App      int    // index in Cluster.Apps
	Count    int
	Quantity Quantities // of each
	// Waits says that none is granted, because the limit of the queue is reached. A scheduler
	// without queues needs another reason.
	Waits bool
}
