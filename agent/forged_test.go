package agent

import (
	"strings"
	"testing"

	bursarv1 "github.com/bursar/bursar/proto/bursar/v1"
)

func TestReasonOfAForgedRecord(t *testing.T) {
	failed := &bursarv1.ExitStatus{Code: new(int32(3))}
	for _, said := range [][]string{nil, {""}, {"", ""}, {"x", ""}} {
		if got := recordedReason("exit code 3", failed, said); len(got) > maxReason {
			t.Errorf("%q: %q", said, got)
		}
	}
	// The name of a cgroup may be long, too.
	if got := recordedReason("killed for lack of memory: the limit of cgroup /"+strings.Repeat("c", 2*maxReason), failed, []string{"x"}); len(got) > maxReason {
		t.Errorf("%q", got)
	}
}
