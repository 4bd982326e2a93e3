package ledger_test

import (
	"fmt"
	"testing"

	"github.com/bursar/bursar/coordinator/ledger"
	"github.com/bursar/bursar/internal/identity"
	"github.com/bursar/bursar/resource"
)

// A survey looks at 4096 hosts at most, and says how many there are. What is closed, held or full
// among them is counted as in a small fleet: no count is below zero.
func TestASurveyOfALargeFleetIsASample(t *testing.T) {
	for hosts, want := range map[int][2]int{4096: {4096, 0}, 4097: {2049, 4097}, 10_000: {3334, 10_000}} {
		l := ledger.New(ledger.Config{}, newPlainPlacer())
		for i := range hosts {
			id := fmt.Sprintf("h%05d", i)
			_, err := l.Register(start, ledger.RegisterCommand{HostID: id, Incarnation: 1, Capacity: resource.Vector{}.WithMemory(10).WithCPU(1)})
			must(t, err)
		}
		x, err := l.Explain(start, ledger.AllocateCommand{
			Actor: identity.Local(), Resource: resource.NewResource(resource.Vector{}.WithMemory(5)),
		})
		must(t, err)
		f := x.Filters
		if f == nil || f.Total > 4096 || f.Total > want[0] || f.Total < want[0]-1 || f.Fleet != want[1] || f.Measurement != f.Total {
			t.Errorf("of %d hosts: %+v; want %d looked at", hosts, f, want[0])
		}
	}
}
