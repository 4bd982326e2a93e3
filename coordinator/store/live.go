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

// chunk is some rows, passed from the goroutine that reads them to those that decode them.
type chunk struct {
	into     []ledger.Allocation // as long as the others
	ids      []ledger.ID
	forget   []bool
	ends     []int // of each payload in payloads
	payloads []byte
}

const chunkRows = 256

// DecodeLive reads and decodes count rows, several at the same time, because this is most of the
// time of a coordinator's start. next is called by one goroutine, once for each row.
func DecodeLive(ctx context.Context, count int, next func() (LiveRow, error)) ([]ledger.Allocation, error) {
	if count == 0 {
		return nil, nil
	}
	all := make([]ledger.Allocation, count)
	work, ctx := errgroup.WithContext(ctx)
	chunks := make(chan *chunk, runtime.GOMAXPROCS(0))
	work.Go(func() error {
		defer close(chunks)
		return readChunks(ctx, all, next, chunks)
	})
	for range runtime.GOMAXPROCS(0) {
		work.Go(func() error {
			for c := range chunks {
				if err := c.decode(); err != nil {
					return err
				}
			}
			return nil
		})
	}
	return all, work.Wait() //nolint:wrapcheck // ours
}

// readChunks cuts the rows into chunks, each of which is to be decoded into its part of all.
func readChunks(ctx context.Context, all []ledger.Allocation, next func() (LiveRow, error), chunks chan<- *chunk) error {
	for len(all) > 0 {
		n := min(len(all), chunkRows)
		c := &chunk{into: all[:n]}
		all = all[n:]
		if err := c.read(next); err != nil {
			return err
		}
		select {
		case chunks <- c:
		case <-ctx.Done():
			return ctx.Err()
		}
	}
	return nil
}

func (c *chunk) read(next func() (LiveRow, error)) error {
	c.ids, c.forget, c.ends = make([]ledger.ID, len(c.into)), make([]bool, len(c.into)), make([]int, len(c.into))
	for i := range c.into {
		row, err := next()
		if err != nil {
			return err
		}
		if c.payloads == nil {
			c.payloads = make([]byte, 0, len(row.Payload)*len(c.into)*5/4)
		}
		c.payloads = append(c.payloads, row.Payload...)
		c.ids[i], c.forget[i], c.ends[i] = ledger.ID(Unsigned(row.ID)), row.Forget != 0, len(c.payloads)
	}
	return nil
}

func (c *chunk) decode() error {
	begin := 0
	for i := range c.into {
		var err error
		if c.into[i], err = DecodeAllocation(c.ids[i], c.forget[i], c.payloads[begin:c.ends[i]]); err != nil {
			return err
		}
		begin = c.ends[i]
	}
	return nil
}
