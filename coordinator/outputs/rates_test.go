package outputs

import (
	"context"
	"errors"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	bursarv1 "github.com/bursar/bursar/proto/bursar/v1"
)

// source has an agent send so many pieces.
func source(r *Readers, pieces int) *leader {
	return &leader{play: func(_ int, _ *bursarv1.LogsRequest, ticket []byte) (string, error) {
		go func() {
			c := deliver(r, "h1", ticket)
			text := strings.Repeat("x", MaxPiece)
			for i := range pieces {
				select {
				case c.messages <- &bursarv1.SendOutputRequest{Output: &bursarv1.LogsResponse{NextOffset: int64(i+1) * MaxPiece, Piece: &bursarv1.LogsResponse_Data{Data: []byte(text)}}}:
				case <-c.over:
					return
				}
			}
			c.end(int64(pieces) * MaxPiece)
			<-c.over
		}()
		return "h1", nil
	}}
}

// The readers of a caller share its rate, all readers that of the coordinator, and a reload counts
// at once.
func TestRates(t *testing.T) {
	const each = 160 // 10 MiB
	took := func(t *testing.T, r *Readers, callers ...string) time.Duration {
		began := time.Now()
		var all sync.WaitGroup
		for _, caller := range callers {
			all.Go(func() {
				if err := r.Read(t.Context(), caller, &bursarv1.LogsRequest{Id: "1"}, source(r, each), (&reader{}).take); err != nil {
					t.Error(err)
				}
			})
		}
		all.Wait()
		return time.Since(began).Round(time.Second)
	}
	synctest.Test(t, func(t *testing.T) {
		r := New(Rates{Caller: 1 << 20, All: 4 << 20})
		for _, c := range []struct {
			callers []string
			want    time.Duration
		}{
			{[]string{"a"}, 10 * time.Second},
			{[]string{"a", "a"}, 20 * time.Second},
			{[]string{"a", "b", "c"}, 10 * time.Second},
			{[]string{"a", "b", "c", "d", "e", "f", "g", "h"}, 20 * time.Second},
		} {
			if got := took(t, r, c.callers...); got != c.want {
				t.Errorf("%v: took %v, want %v", c.callers, got, c.want)
			}
		}
		r.SetRates(Rates{Caller: 10 << 20, All: 10 << 20})
		if got := took(t, r, "a"); got != time.Second {
			t.Errorf("after a reload: took %v", got)
		}
	})
}

// A reader that waits for its rate hears of the end of its context and of the coordinator at that
// moment, as one does that waits for output.
func TestAReaderThatWaitsForItsRateEnds(t *testing.T) {
	why := errors.New("it stops")
	for name, c := range map[string]struct {
		rates Rates
		close bool
		want  error
	}{
		"its deadline, at its own rate":    {Rates{Caller: MaxPiece, All: 1 << 30}, false, context.DeadlineExceeded},
		"its deadline, at the rate of all": {Rates{Caller: 1 << 30, All: MaxPiece}, false, context.DeadlineExceeded},
		"the coordinator stops":            {Rates{Caller: MaxPiece, All: 1 << 30}, true, why},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				r := New(c.rates)
				const end = 3*time.Second + time.Second/2 // between two pieces
				ctx := t.Context()
				if c.close {
					time.AfterFunc(end, func() { r.Close(why) })
				} else {
					var cancel context.CancelFunc
					ctx, cancel = context.WithTimeout(ctx, end)
					defer cancel()
				}
				began := time.Now()
				err := r.Read(ctx, "alice", &bursarv1.LogsRequest{Id: "1"}, source(r, 100), (&reader{}).take)
				if took := time.Since(began); !errors.Is(err, c.want) || took != end {
					t.Errorf("after %v: %v", took, err)
				}
			})
		})
	}
}
