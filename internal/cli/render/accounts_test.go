package render

import (
	"slices"
	"testing"

	bursarv1 "github.com/bursar/bursar/proto/bursar/v1"
)

// The note that an account is over its limit stands where the number is below zero. Numbers in a
// note are as short as those in the cells.
func TestNotesOfAnAccountStandAtTheirDimension(t *testing.T) {
	t.Parallel()
	account := &bursarv1.Account{
		Limit:     &bursarv1.Resource{MemoryBytes: new(int64(8 << 30)), CpuMillis: new(int64(1000))},
		Available: &bursarv1.Resource{MemoryBytes: new(int64(4 << 30)), CpuMillis: new(int64(-500))},
		OverLimit: true, HeldFor: "3f7k",
		Kept: &bursarv1.Resource{MemoryBytes: new(int64(24684084 << 10))},
	}
	var notes []string
	for _, row := range AccountRows([]*bursarv1.Account{account}) {
		notes = append(notes, row[len(row)-1])
	}
	if want := []string{"held for 3f7k, keeps memory=23.5GiB", "over its limit"}; !slices.Equal(notes, want) {
		t.Errorf("notes %q, want %q", notes, want)
	}
}
