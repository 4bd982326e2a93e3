package convert

import (
	"strings"

	bursarv1 "github.com/bursar/bursar/proto/bursar/v1"
)

// StateText returns the word for a state of an allocation: "active" for ALLOCATION_STATE_ACTIVE.
func StateText(s bursarv1.AllocationState) string {
	return strings.ToLower(strings.TrimPrefix(s.String(), "ALLOCATION_STATE_"))
}
