package pause_test

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/bursar/bursar/internal/pause"
)

func TestAPauseLastsUntilOneOfTheChannelsIsClosed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		end := make(chan struct{})
		for _, ends := range [][2]<-chan struct{}{{nil, nil}, {end, nil}, {nil, end}} {
			began := time.Now()
			if !pause.For(time.Minute, ends[0], ends[1]) || time.Since(began) != time.Minute {
				t.Errorf("it ends after %s; want a minute", time.Since(began))
			}
		}
		time.AfterFunc(time.Second, func() { close(end) })
		began := time.Now()
		if pause.For(time.Minute, nil, end) || time.Since(began) != time.Second {
			t.Errorf("it goes on for %s; want a second", time.Since(began))
		}
		if pause.For(time.Minute, end, nil) || time.Since(began) != time.Second {
			t.Error("it goes on after the end")
		}
	})
}
