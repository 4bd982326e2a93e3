package store

import (
	"context"
	"runtime"

	"golang.org/x/sync/errgroup"

	"github.com/bursar/bursar/coordinator/ledger"
)

// LiveRow is the row of a live allocation as it is read. The payload is valid until the next one
// is read.
type LiveRow struct {
	ID      int64
	Forget  int64
	Payload []byte
}

// chunk is some rows, passed from the goroutine that reads them to those that decode them, and
// from there to the one that takes them.
type chunk struct {
	rows     []ledger.Allocation // as long as the others
	ids      []ledger.ID
	forget   []bool
	ends     []int // of each payload in payloads
	payloads []byte
	decoded  chan struct{} // closed once rows are there
}

const chunkRows = 256

// DecodeLive reads and decodes count rows, several at the same time, because this is most of the
// time of a coordinator's start. next is called by one goroutine, once for each row; take by
// another one, with rest. If take is nil, the rows are added to rest.
func DecodeLive(ctx context.Context, count int, next func() (LiveRow, error), rest *ledger.Snapshot, take Take) error {
	if take == nil {
		rest.Allocations = make([]ledger.Allocation, 0, count)
		take = keep
	}
	work, ctx := errgroup.WithContext(ctx)
	workers := runtime.GOMAXPROCS(0)
	undecoded, untaken := make(chan *chunk, workers), make(chan *chunk, 4*workers)
	work.Go(func() error {
		defer close(undecoded)
		defer close(untaken)
		return readChunks(ctx, count, next, undecoded, untaken)
	})
	for range workers {
		work.Go(func() error {
			for c := range undecoded {
				if err := c.decode(); err != nil {
					return err
				}
			}
			return nil
		})
	}
	work.Go(func() error {
		for c := range untaken {
			select {
			case <-c.decoded:
			case <-ctx.Done():
				return ctx.Err()
			}
			if err := take(rest, c.rows); err != nil {
				return err
			}
		}
		return nil
	})
	return work.Wait() //nolint:wrapcheck // ours
}

// readChunks cuts the rows into chunks, and passes each to those who decode and to the one who
// takes.
func readChunks(ctx context.Context, count int, next func() (LiveRow, error), undecoded, untaken chan<- *chunk) error {
	for count > 0 {
		c := &chunk{decoded: make(chan struct{})}
		if err := c.read(min(count, chunkRows), next); err != nil {
			return err
		}
		count -= len(c.ids)
		for _, to := range []chan<- *chunk{untaken, undecoded} {
			select {
			case to <- c:
			case <-ctx.Done():
				return ctx.Err()
			}
		}
	}
	return nil
}

func (c *chunk) read(count int, next func() (LiveRow, error)) error {
	c.ids, c.forget, c.ends = make([]ledger.ID, count), make([]bool, count), make([]int, count)
	for i := range count {
		row, err := next()
		if err != nil {
			return err
		}
		if c.payloads == nil {
			c.payloads = make([]byte, 0, len(row.Payload)*count*5/4)
		}
		c.payloads = append(c.payloads, row.Payload...)
		c.ids[i], c.forget[i], c.ends[i] = ledger.ID(Unsigned(row.ID)), row.Forget != 0, len(c.payloads)
	}
	return nil
}

func (c *chunk) decode() error {
	c.rows = make([]ledger.Allocation, len(c.ids))
	begin := 0
	for i := range c.rows {
		var err error
		if c.rows[i], err = DecodeAllocation(c.ids[i], c.forget[i], c.payloads[begin:c.ends[i]]); err != nil {
			return err
		}
		begin = c.ends[i]
	}
	c.payloads = nil
	close(c.decoded)
	return nil
}

func keep(rest *ledger.Snapshot, rows []ledger.Allocation) error {
	rest.Allocations = append(rest.Allocations, rows...)
	return nil
}
