package resource

import "testing"

func TestMeant(t *testing.T) {
	for name, want := range map[string]string{
		"vcores": CPU, "memory-mb": Memory, "memoryMB": Memory, "mem": Memory, "am_memory": AMMemory, "AM-Memory": AMMemory, "am-vcores": AMCPU,
		"Memory": Memory, "memory": "", "am-memory": "", "applications": "", "gpu": "", "yarn.io/gpu": "", "MATLAB": "",
	} {
		if got := Meant(name); got != want {
			t.Errorf("%s is meant to be %q; want %q", name, got, want)
		}
	}
}
