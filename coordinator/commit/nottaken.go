package commit

import (
	"log/slog"
	"maps"
	"sync"
	"time"

	"github.com/bursar/bursar/coordinator/ledger"
)

// notTakenEvery is the least time between two log lines about one host.
const notTakenEvery = time.Minute

// notTakenLog logs hosts that report engines whose allocations the ledger has elsewhere. The zero
// value is ready. Any goroutine may use it.
type notTakenLog struct {
	mu       sync.Mutex
	lastLine map[string]time.Time // by host; older ones are swept when another host is logged
}

// log writes a line, unless there was one about this host within a minute.
func (l *notTakenLog) log(logger *slog.Logger, host string, n *ledger.NotTaken) {
	if l.isDue(host, time.Now()) {
		logger.Warn("a host reports engines that the ledger has elsewhere, or had as other requests, and they are not taken in: its agent is not to be trusted, or the store was put back",
			"host", host, "engines", n.Count, "allocation", n.First.ID, "state", n.First.State, "on", n.First.HostID)
	}
}

// isDue reports whether there was no line about a host within the last minute. If so, it records
// one.
func (l *notTakenLog) isDue(host string, now time.Time) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	if at, known := l.lastLine[host]; known && now.Sub(at) < notTakenEvery {
		return false
	}
	maps.DeleteFunc(l.lastLine, func(_ string, at time.Time) bool { return now.Sub(at) >= notTakenEvery })
	if l.lastLine == nil {
		l.lastLine = make(map[string]time.Time)
	}
	l.lastLine[host] = now
	return true
}
