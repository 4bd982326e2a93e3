package main

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"runtime"
	"time"

	"github.com/bursar/bursar/providers"
	"github.com/bursar/bursar/providers/yarn"
)

// queuesSuite measures the cost of the queues of an external cluster, and its effect on callers of
// other requests.
func queuesSuite(ctx context.Context, r *run) error {
	w, err := readWorkload("queues")
	if err != nil {
		return err
	}
	if err := r.decodes(w); err != nil {
		return err
	}
	if err := r.takesReports(w); err != nil {
		return err
	}
	if err := r.ledgerParts(w); err != nil {
		return err
	}
	return r.polls(ctx, w)
}

// cost is the time, the CPU time on all cores, and the allocated bytes of an operation.
type cost struct {
	took, cpu time.Duration
	bytes     uint64
}

// costOf runs a function. The cost includes other work of this process at that time.
func costOf(run func() error) (cost, error) {
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	used, err := cpuTime()
	if err != nil {
		return cost{}, err
	}
	began := time.Now()
	if err := run(); err != nil {
		return cost{}, err
	}
	took := time.Since(began)
	usedAfter, err := cpuTime()
	runtime.ReadMemStats(&after)
	return cost{took, usedAfter - used, after.TotalAlloc - before.TotalAlloc}, err
}

// costs has the costs of several turns.
type costs struct{ cpu, took, bytes []float64 } // in milliseconds, and bytes

func (c *costs) add(of cost) {
	c.cpu, c.took = append(c.cpu, of.cpu.Seconds()*1e3), append(c.took, of.took.Seconds()*1e3)
	c.bytes = append(c.bytes, float64(of.bytes))
}

// decodes compares the decoder of answers with encoding/json.
func (r *run) decodes(w *workload) error {
	for _, queues := range w.Queues {
		body := yarnCluster{queues: queues}.answer()
		var own, general costs
		for round := range r.rounds(turnsOf(w, queues)) {
			a, err := costOf(func() error {
				read, err := decode(bytes.NewReader(body))
				if err == nil && len(read) != queues+1 {
					err = fmt.Errorf("an answer with %d queues and the root was read as %d", queues, len(read))
				}
				return err
			})
			if err != nil {
				return err
			}
			b, err := costOf(func() error {
				var all any
				return json.Unmarshal(body, &all)
			})
			if err != nil {
				return fmt.Errorf("the answer: %w", err)
			}
			if round > 0 {
				own.add(a)
				general.add(b)
			}
		}
		held, err := holds(body)
		if err != nil {
			return err
		}
		name := fmt.Sprintf("queues/decode-%d", queues)
		size := float64(len(body))
		r.line(name, median(own.cpu), "ms", median(ratios(own.cpu, general.cpu)))
		r.line(name+"-json", median(general.cpu), "ms", 0)
		r.line(name+"-clock", median(own.took), "ms", median(ratios(own.took, general.took)))
		r.line(name+"-body", size/1e6, "MB", 0)
		r.line(name+"-held", held/1e6, "MB", held/size)
		r.line(name+"-allocated", median(own.bytes)/1e6, "MB", median(own.bytes)/size)
		r.line(name+"-allocated-json", median(general.bytes)/1e6, "MB", median(general.bytes)/size)
	}
	return nil
}

// holds returns the number of bytes that the decoder holds after it has read a whole answer.
func holds(body []byte) (float64, error) {
	at := &heapAtEnd{from: bytes.NewReader(body)}
	before := heap()
	if _, err := decode(at); err != nil {
		return 0, err
	}
	return float64(at.heap) - float64(before), nil
}

// heapAtEnd measures the heap at the end of the input.
type heapAtEnd struct {
	from io.Reader
	heap uint64
}

func (h *heapAtEnd) Read(p []byte) (int, error) {
	n, err := h.from.Read(p)
	if err != nil {
		h.heap = heap()
	}
	return n, err //nolint:wrapcheck // io.EOF is to stay so
}

// heap returns the memory in use.
func heap() uint64 {
	runtime.GC()
	var stats runtime.MemStats
	runtime.ReadMemStats(&stats)
	return stats.HeapAlloc
}

// turnsOf returns the number of turns; small clusters get more.
func turnsOf(w *workload, queues int) int {
	return w.Rounds * min(5, max(1, w.Queues[len(w.Queues)-1]/queues))
}

// decode reads the queues of an answer, like a coordinator.
func decode(body io.Reader) ([]providers.Queue, error) {
	scheduler, err := yarn.Decode(body)
	if err != nil {
		return nil, err
	}
	return scheduler.Queues(nil), nil
}
