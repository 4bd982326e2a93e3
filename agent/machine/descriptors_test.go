package machine

import (
	"strings"
	"testing"

	"golang.org/x/sys/unix"
)

// A host whose agent cannot open more is not healthy: the next engine could not be confirmed.
func TestFewDescriptorsAreAProblemOfTheHost(t *testing.T) {
	for _, test := range []struct {
		open, limit uint64
		want        bool
	}{{20, 1024, false}, {1008, 1024, false}, {1009, 1024, true}, {256, 256, true}, {300, 256, true}} {
		if problem := descriptorProblem(test.open, test.limit); (problem != "") != test.want {
			t.Errorf("%d of %d: %q", test.open, test.limit, problem)
		}
	}
	if problem := CheckDescriptors(); problem != "" {
		t.Error(problem)
	}
	open, err := openDescriptors()
	var limit unix.Rlimit
	if err != nil || open < 3 || unix.Getrlimit(unix.RLIMIT_NOFILE, &limit) != nil {
		t.Fatal(open, err)
	}
	few := limit
	few.Cur = open + 2
	if err := unix.Setrlimit(unix.RLIMIT_NOFILE, &few); err != nil {
		t.Fatal(err)
	}
	problem := CheckDescriptors()
	if err := unix.Setrlimit(unix.RLIMIT_NOFILE, &limit); err != nil {
		t.Fatal(err)
	}
	if !strings.Contains(problem, "LimitNOFILE=") {
		t.Errorf("%q", problem)
	}
}
