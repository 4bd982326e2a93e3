package ledger_test

import (
	"fmt"
	"testing"
	"time"

	"github.com/bursar/bursar/coordinator/ledger"
	"github.com/bursar/bursar/resource"
)

// reporting is a ledger with so many hosts.
func reporting(t *testing.T, c ledger.Config, hosts int) *ledger.Ledger {
	t.Helper()
	l := ledger.New(c, newPlainPlacer())
	for i := range hosts {
		id := fmt.Sprint("h", i)
		_, err := l.Register(start, ledger.RegisterCommand{HostID: id, Incarnation: 1, Capacity: resource.Vector{}.WithMemory(8)})
		must(t, err)
	}
	return l
}

// After a change of leader all hosts have reported everything within two intervals, and before one
// of them is suspect, whatever the settings are.
func TestFullReportsComeInTime(t *testing.T) {
	for _, c := range []ledger.Config{{}, {ReportsPerSecond: 200}, {ReportsPerSecond: 1}, {Interval: time.Second}, {SuspectAfter: 1}, {SuspectAfter: 2}} {
		for _, hosts := range []int{1, 2000} {
			l := reporting(t, c, hosts)
			most := 2 * l.Interval()
			if c.SuspectAfter > 0 {
				most = min(most, time.Duration(c.SuspectAfter)*l.Interval()-1)
			}
			if all := time.Duration(hosts) * l.FullReportGap(); all > most {
				t.Errorf("%+v: full reports of %d hosts take %s; want at most %s, with intervals of %s", c, hosts, all, most, l.Interval())
			}
		}
	}
}
