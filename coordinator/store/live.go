package store

import (
	"context"
	"runtime"
	"slices"

	"golang.org/x/sync/errgroup"

	"github.com/bursar/bursar/coordinator/ledger"
)

// LiveRow is the row of a live allocation. The payload is valid until the next row is read.
type LiveRow struct {
	ID      int64
	Forget  int64
	Payload []byte
}

// chunk holds some rows. The reading goroutine passes it to the decoding ones, and these to the one
// that takes the rows. Then its memory is used again.
type chunk struct {
	ids      []ledger.ID
	forget   []bool
	ends     []int // of each payload in payloads
	payloads []byte
	rows     []ledger.Allocation
	decoded  chan struct{} // gets one element when the rows are decoded
}

const (
	chunkRows = 256
	// chunksAhead is how many chunks may be read and not taken yet.
	chunksAhead = 16
)

// DecodeLive reads and decodes count rows, several at the same time, because this is most of the
// time of a coordinator's start. One goroutine calls next, once for each row. Another one calls
// take with rest, first once without a row. If take is nil, the rows are added to rest.
func DecodeLive(ctx context.Context, count int, next func() (LiveRow, error), rest *ledger.Snapshot, take Take) error {
	if take == nil {
		rest.Allocations = slices.Grow(rest.Allocations, count)
		take = keep
	}
	if err := take(rest, nil); err != nil {
		return err
	}
	work, ctx := errgroup.WithContext(ctx)
	free, undecoded, untaken := make(chan *chunk, chunksAhead), make(chan *chunk, chunksAhead), make(chan *chunk, chunksAhead)
	for range chunksAhead {
		free <- &chunk{decoded: make(chan struct{}, 1)}
	}
	work.Go(func() error {
		defer close(undecoded)
		defer close(untaken)
		for left := count; left > 0; left -= chunkRows {
			select {
			case c := <-free:
				if err := c.read(min(left, chunkRows), next); err != nil {
					return err
				}
				undecoded <- c // there is room: there are no more chunks
				untaken <- c
			case <-ctx.Done():
				return ctx.Err()
			}
		}
		return nil
	})
	for range runtime.GOMAXPROCS(0) {
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
			free <- c
		}
		return nil
	})
	return work.Wait() //nolint:wrapcheck // ours
}

func (c *chunk) read(count int, next func() (LiveRow, error)) error {
	c.ids, c.forget, c.ends, c.payloads = c.ids[:0], c.forget[:0], c.ends[:0], c.payloads[:0]
	for range count {
		row, err := next()
		if err != nil {
			return err
		}
		c.payloads = append(c.payloads, row.Payload...)
		c.ids, c.forget = append(c.ids, ledger.ID(Unsigned(row.ID))), append(c.forget, row.Forget != 0)
		c.ends = append(c.ends, len(c.payloads))
	}
	return nil
}

func (c *chunk) decode() error {
	c.rows = c.rows[:0]
	begin := 0
	for i, end := range c.ends {
		row, err := DecodeAllocation(c.ids[i], c.forget[i], c.payloads[begin:end])
		if err != nil {
			return err
		}
		c.rows = append(c.rows, row)
		begin = end
	}
	c.decoded <- struct{}{}
	return nil
}

func keep(rest *ledger.Snapshot, rows []ledger.Allocation) error {
	rest.Allocations = append(rest.Allocations, rows...)
	return nil
}
