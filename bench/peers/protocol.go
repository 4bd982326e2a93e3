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

// Cluster is what a scheduler has before the first request.
type Cluster struct {
	Hosts  int
	Host   Quantities // of each
	Queues []Queue
	// Apps are all that will ask for something. A peer knows them before the clock starts.
	Apps []App
}

// Quantities are bytes of memory and thousandths of a CPU; 0 of both in a limit means none.
type Quantities struct {
	Memory, CPU int64
}

// Queue has a limit for all in it, and one for each of its users. A peer without queues ignores
// them.
type Queue struct {
	Name           string
	Limit, PerUser Quantities
}

// App is who asks: an application of a user in a queue.
type App struct {
	Queue, User string
}

// Closed is a closed loop: client number n is application number n of those of Open. It asks for
// one allocation, waits until it has it, ends it, and asks again.
type Closed struct {
	Clients int
	Lasts   time.Duration
	Request Quantities
}

// Batch is so many requests of each of so many applications, the first of them number From, all
// handed in at once, for 1 to Sizes times the memory of Request, as many of each. As a Burst all
// are granted, stay, and the last grant ends the clock. As a Wait none is granted: the queues of
// the applications are full.
//
// A Burst is cut off if it takes longer than Within, unless that is 0. The process is of no further
// use then, because requests of the burst still wait.
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
	Pairs   int    // allocations that were granted and ended; of a Burst, granted, fewer than asked for if it was cut off
	Took    time.Duration
	P50     float64 // how long a grant took, in microseconds
	P99     float64
	Err     string
}

// Serve does what is ordered until there are no more orders. It returns an error only if it cannot
// read an order or write an answer; an order that failed is an answer with Err.
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
