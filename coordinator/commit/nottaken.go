package commit

import (
	"log/slog"
	"maps"
	"sync"
	"time"

	"github.com/bursar/bursar/coordinator/ledger"
)

// elsewhereEvery is the time between two lines of the log about one host.
const elsewhereEvery = time.Minute

// elsewhere tells of hosts that report engines whose allocations the books have elsewhere. The zero value is ready, and safe for use by several.
type elsewhere struct {
	mu   sync.Mutex
	told map[string]time.Time // by host; older ones are swept when another host is told of
}

// tell writes a line, unless there was one about this host within a minute.
func (e *elsewhere) tell(log *slog.Logger, host string, n *ledger.NotTaken) {
	if e.first(host, time.Now()) {
		log.Warn("a host reports engines that the books have elsewhere, or had as other requests, and they are not taken in: its agent is not to be trusted, or the store was put back",
			"host", host, "engines", n.Count, "allocation", n.First.ID, "state", n.First.State, "on", n.First.HostID)
	}
}

// first reports whether there was no line about a host within the last minute, and takes note that there is one now.
func (e *elsewhere) first(host string, now time.Time) bool {
	e.mu.Lock()
	defer e.mu.Unlock()
	if at, told := e.told[host]; told && now.Sub(at) < elsewhereEvery {
		return false
	}
	maps.DeleteFunc(e.told, func(_ string, at time.Time) bool { return now.Sub(at) >= elsewhereEvery })
	if e.told == nil {
		e.told = make(map[string]time.Time)
	}
	e.told[host] = now
	return true
}
