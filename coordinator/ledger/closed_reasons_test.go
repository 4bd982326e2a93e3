package ledger_test

import (
	"fmt"
	"testing"

	"github.com/bursar/bursar/coordinator/ledger"
	"github.com/bursar/bursar/internal/identity"
	"github.com/bursar/bursar/label"
	"github.com/bursar/bursar/resource"
)

// A refusal counts the closed hosts by their reasons, and tells a few of many.
func TestAFewReasonsWhyHostsAreClosedAreTold(t *testing.T) {
	for hosts, want := range map[int]int{1: 1, 8: 8, 9: 8, 30: 8} {
		l := ledger.New(ledger.Config{}, newPlainPlacer())
		for i := range hosts {
			id := fmt.Sprintf("h%02d", i)
			_, err := l.Register(start, ledger.RegisterCommand{HostID: id, Incarnation: 1, Capacity: resource.Vector{}.WithMemory(10)})
			must(t, err)
			_, err = l.Cordon(start, id, "reason "+id)
			must(t, err)
		}
		x, err := l.Explain(start, ledger.AllocateCommand{
			Actor: identity.Local(), Labels: label.Of("user", "alice"), Resource: resource.NewResource(resource.Vector{}.WithMemory(1)),
		})
		must(t, err)
		if got := len(x.Filters.Closed); got != want || x.Filters.Health != hosts {
			t.Errorf("%d hosts are closed, each for a reason of its own: %d reasons are told of %d hosts; want %d", hosts, got, x.Filters.Health, want)
		}
	}
}
