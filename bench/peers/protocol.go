package peers

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"time"
)

// Order has exactly one of its fields.
type Order struct {
	Open   *Cluster
	Wait   *Batch
	Closed *Closed
	Burst  *Batch
}

// Cluster is the state of a scheduler before the first request.
type Cluster struct {
	Hosts  int
	Host   Quantities // of each
	Queues []Queue
	// Apps are all applications with requests. A peer knows them before the clock starts.
	Apps []App
}

// Quantities are bytes of memory and thousandths of a CPU; 0 of both in a limit means no limit.
type Quantities struct {
	Memory, CPU int64
}

// Queue has a limit for all its users, and one for each of them. A peer without queues ignores
// them.
type Queue struct {
	Name           string
	Limit, PerUser Quantities
}

// App is an application of a user in a queue.
type App struct {
	Queue, User string
}

// Closed is a closed loop: client number n is application number n of Open. It requests one
// allocation, waits for the grant, ends the allocation, and repeats that.
type Closed struct {
	Clients int
	Lasts   time.Duration
	Request Quantities
}

// Batch is a number of requests for each of Apps applications, the first of them number From. All
// are submitted at once, for 1 to Sizes times the memory of Request, with as many requests of each
// size. As a Burst all are granted and stay, and the last grant stops the clock. As a Wait none is
// granted: the queues of the applications are full.
//
// A Burst is cut off after Within, unless that is 0. After that the process cannot be used any
// more, because requests of the burst still wait.
type Batch struct {
	From, Apps int
	Requests   int
	Request    Quantities
	Sizes      int
	Within     time.Duration
}

// Answer is the result of an order.
type Answer struct {
	Version string // of the peer, in answer to Open
	Pairs   int    // granted and ended allocations; of a Burst, granted, fewer than requested if it was cut off
	Took    time.Duration
	P50     float64 // duration of a grant, in microseconds
	P99     float64
	Err     string
}

// Serve executes orders until there are no more. It returns an error only if it cannot read an
// order or write an answer; a failed order has an answer with Err.
func Serve(s Scheduler, in io.Reader, out io.Writer) error {
	run := newRun(s)
	orders, answers := json.NewDecoder(in), json.NewEncoder(out)
	for {
		var o Order
		switch err := orders.Decode(&o); {
		case errors.Is(err, io.EOF):
			return s.Close()
		case err != nil:
			return errors.Join(fmt.Errorf("read an order: %w", err), s.Close())
		}
		a, err := run.do(o)
		if err != nil {
			a.Err = err.Error()
		}
		if err := answers.Encode(a); err != nil {
			return errors.Join(fmt.Errorf("write an answer: %w", err), s.Close())
		}
	}
}
