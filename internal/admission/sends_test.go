package admission

import (
	"context"
	"errors"
	"log/slog"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/prometheus/client_golang/prometheus"
)

func TestTheStreamsOfACallerSendSoManyMessagesASecondTogether(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := New(Limits{Sends: 100}, Options{
			Refused: prometheus.NewCounterVec(prometheus.CounterOpts{Name: "refused_total", Help: "Refusals."}, []string{"reason"}), Log: slog.New(slog.DiscardHandler),
		})
		mallory, alice := Caller{ID: "mallory"}, Caller{ID: "alice"}
		began := time.Now()
		var streams sync.WaitGroup
		for range 50 {
			streams.Go(func() {
				for range 10 {
					if err := c.Send(t.Context(), mallory); err != nil {
						t.Error(err)
					}
				}
			})
		}
		synctest.Wait()
		if err := c.Send(t.Context(), alice); err != nil || time.Since(began) > 0 {
			t.Errorf("another caller waited %s: %v", time.Since(began), err)
		}
		gone, leave := context.WithCancel(t.Context())
		leave()
		if err := c.Send(gone, mallory); !errors.Is(err, context.Canceled) {
			t.Errorf("one that has gone: %v", err)
		}
		streams.Wait()
		// a hundred at once, and then a hundred a second: 500, and one that was not sent
		if took := time.Since(began); took < 4*time.Second || took > 4100*time.Millisecond {
			t.Errorf("500 messages took %s; want 4 s", took)
		}
		if err := New(Limits{}, c.optionsOfTest()).Send(t.Context(), mallory); err != nil {
			t.Errorf("no limit: %v", err)
		}
	})
}

// Messages that are sent together wait together, and each counts.
func TestMessagesThatAreSentTogetherCountEach(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := New(Limits{Sends: 100}, Options{
			Refused: prometheus.NewCounterVec(prometheus.CounterOpts{Name: "refused_total", Help: "Refusals."}, []string{"reason"}), Log: slog.New(slog.DiscardHandler),
		})
		began := time.Now()
		for range 10 {
			if err := c.SendMany(t.Context(), Caller{ID: "mallory"}, 50); err != nil {
				t.Error(err)
			}
		}
		if took := time.Since(began); took < 4*time.Second || took > 4100*time.Millisecond {
			t.Errorf("500 messages took %s; want 4 s", took)
		}
		if err := c.SendMany(t.Context(), Caller{ID: "alice"}, 500); err != nil || time.Since(began) > 5*time.Second {
			t.Errorf("more than a second's: %v after %s", err, time.Since(began))
		}
	})
}

func (c *Controller) optionsOfTest() Options { return Options{Refused: c.refused, Log: c.log} }
