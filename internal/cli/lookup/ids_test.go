package lookup

import (
	"fmt"
	"testing"
)

func TestPrefixNamesOneThingOrSeveral(t *testing.T) {
	var many []string
	for i := range 12 {
		many = append(many, fmt.Sprintf("vm-%d", i))
	}
	if id, err := unique("host", "vm-1", many); id != "vm-1" || err != nil {
		t.Errorf("the whole id: %q, %v", id, err)
	}
	if id, err := unique("host", "vm-", many[:1]); id != "vm-0" || err != nil {
		t.Errorf("a prefix of one: %q, %v", id, err)
	}
	if id, err := unique("host", "x", nil); id != "" || err != nil {
		t.Errorf("a prefix of none: %q, %v", id, err)
	}
	_, err := unique("host", "vm-", many)
	want := `"vm-" is the beginning of several hosts: vm-0, vm-1, vm-2, vm-3, vm-4, vm-5, vm-6, vm-7, …`
	if err == nil || err.Error() != want {
		t.Errorf("a prefix of many: %v\nwant %s", err, want)
	}
}
