package agent

import (
	"bytes"
	"log/slog"
	"strings"
	"testing"
	"time"
)

// A source is logged once, also if it is odd in every second look, until it has been good for long.
func TestAnOddSourceIsLoggedOnce(t *testing.T) {
	var logged bytes.Buffer
	a := &Agent{log: slog.New(slog.NewTextHandler(&logged, nil)), degraded: map[string]time.Time{}}
	now := time.Unix(0, 0)
	odd := map[string]string{"memory.SwapFree": "more than SwapTotal"}
	for i := range 100 {
		now = now.Add(time.Second)
		if i%2 == 0 {
			a.logDegraded(now, odd)
		} else {
			a.logDegraded(now, nil)
		}
	}
	if n := strings.Count(logged.String(), "\n"); n != 1 {
		t.Errorf("%d lines:\n%s", n, &logged)
	}
	now = now.Add(degradedQuiet)
	a.logDegraded(now, nil)
	a.logDegraded(now, odd)
	if n := strings.Count(logged.String(), "\n"); n != 3 {
		t.Errorf("%d lines after a quiet time:\n%s", n, &logged)
	}
}
