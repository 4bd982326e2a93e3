package client

import (
	"errors"
	"math"
	"testing"
	"testing/synctest"
	"time"

	"connectrpc.com/connect"

	bursarv1 "github.com/bursar/bursar/proto/bursar/v1"
)

// A watch whose policy has no end continues for days without a server, and reports that once.
func TestWatchWithoutEndTellsOfAnOutageOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const away = 48 * time.Hour
		var told []time.Duration
		began := time.Now()
		s := newSettings([]Option{
			WithRetries(RetryPolicy{Patience: 5 * time.Second, Present: math.MaxInt64}),
			WithNotice(2*time.Second, func(error) { told = append(told, time.Since(began)) }),
		})
		over := connect.NewError(connect.CodeOutOfRange, errors.New("too long ago"))
		var last error
		for _, err := range follow(t.Context(), s, 7, func(uint64) (*connect.ServerStreamForClient[bursarv1.AllocationServiceWatchResponse], error) {
			if time.Since(began) < away {
				return nil, errRefused
			}
			return nil, over
		}) {
			last = err
		}
		if took := time.Since(began); !errors.Is(last, over) || took > away+2*time.Second {
			t.Errorf("ended after %s with %v: want the server's answer after %s", took, last, away)
		}
		if len(told) != 1 || told[0] < 2*time.Second || told[0] > 5*time.Second {
			t.Errorf("told after %v: want once, after 2s to 5s", told)
		}
	})
}

// A watch of an address that never answered ends soon. A server that has answered may be
// restarting.
func TestWatchOfAnAddressWhereNobodyIsEndsSoon(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		for _, reached := range []bool{false, true} {
			began := time.Now()
			s := newSettings([]Option{WithRetries(RetryPolicy{Patience: time.Second, Absent: time.Second, Present: time.Hour})})
			s.reached.Store(reached)
			for _, err := range follow(t.Context(), s, 7, func(uint64) (*connect.ServerStreamForClient[bursarv1.AllocationServiceWatchResponse], error) {
				return nil, errRefused
			}) {
				if !errors.Is(err, errRefused) {
					t.Errorf("reached before: %t: %v", reached, err)
				}
			}
			if took := time.Since(began); reached != (took > time.Minute) || took > 2*time.Hour {
				t.Errorf("reached before: %t: ended after %s", reached, took)
			}
		}
	})
}
