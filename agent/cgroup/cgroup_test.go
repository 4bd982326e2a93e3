package cgroup

import "testing"

func TestNamesOfCgroupsThatAreMadeForAnEngine(t *testing.T) {
	for name, want := range map[string]bool{
		"/x/bursar-engines/e1": true, "/x/bursar-engines/e1.adopted": true,
		"/bursar.slice/bursar-engine-e1.service": true, "/system.slice/bursar-engine-e1.scope": true,
		"/x/bursar-engines/e2": false, "/x/e1": false, "/e1": false, "/": false, "/x/bursar-engines/e1/c": false,
		"/system.slice/bursar-engine-e2.scope": false,
	} {
		if got := IsNameOf("e1", name); got != want {
			t.Errorf("%s: %t", name, got)
		}
	}
}
