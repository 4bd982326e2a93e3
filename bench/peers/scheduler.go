package peers

// Scheduler is a peer. Its methods may be called by many goroutines at once, except Open, which is
// called once and before all others, and Close, which is called once and after them.
type Scheduler interface {
	// Open makes the cluster and returns the version of the peer. From then on the scheduler calls
	// granted for each request that is granted: with the request's name and the number of its
	// allocations that are new. granted does not block.
	Open(c Cluster, granted func(name string, allocations int)) (version string, err error)

	// Submit hands in requests of one application and does not wait for their grants.
	Submit(requests []Request) error

	// Release ends a request whose allocations were all granted. It need not wait until the
	// scheduler has the resource back.
	Release(r Request) error

	Close() error
}

// Request asks for Count allocations that are all alike.
type Request struct {
	Name     string // nobody else has it
	App      int    // number of the application, of those of Cluster
	Count    int
	Quantity Quantities // of each
	// Waits says that none is granted, because the limit of the queue is reached. A scheduler
	// without queues finds another reason.
	Waits bool
}
