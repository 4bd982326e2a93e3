package agent

import (
	"testing"

	"github.com/bursar/bursar/resource"
)

func TestCapacityCapsWhatIsCounted(t *testing.T) {
	capped, err := resource.ParseVector(map[string]string{"memory": "1GiB", "gpu": "2", "fpga": "8", "license": "5"})
	if err != nil {
		t.Fatal(err)
	}
	want, err := resource.ParseVector(map[string]string{"memory": "1GiB", "gpu": "2", "fpga": "3", "license": "5", "tape": "1"})
	if err != nil {
		t.Fatal(err)
	}
	if got := withCounts(capped, map[string]int64{"gpu": 4, "fpga": 3, "tape": 1}); got.String() != want.String() {
		t.Errorf("%v, want %v", got, want)
	}
}
