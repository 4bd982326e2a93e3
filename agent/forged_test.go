package agent

import (
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
}
