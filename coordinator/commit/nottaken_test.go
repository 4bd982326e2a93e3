package commit

import (
	"fmt"
	"log/slog"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/bursar/bursar/coordinator/ledger"
)

func TestTheLogTellsOfAHostOnceAMinute(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var e notTakenLog
		log := &strings.Builder{}
		n := &ledger.NotTaken{Count: 1}
		for minute := range 3 {
			for range 12 {
				for host := range 5 {
					e.log(slog.New(slog.NewTextHandler(log, nil)), fmt.Sprint("h", host), n)
				}
				time.Sleep(5 * time.Second)
			}
			if got := strings.Count(log.String(), "host=h3"); got != minute+1 {
				t.Fatalf("%d lines after %d minutes", got, minute+1)
			}
		}
		time.Sleep(time.Minute)
		e.log(slog.New(slog.DiscardHandler), "h9", n)
		if len(e.lastLine) != 1 {
			t.Errorf("%d hosts are remembered: want the one of the last minute", len(e.lastLine))
		}
	})
}
