//go:build unix && !linux

package client

import (
	"os"

	bursarv1 "github.com/bursar/bursar/proto/bursar/v1"
)

// sayUse does nothing: agents run on Linux.
func sayUse(*bursarv1.ReleaseRequest, *os.ProcessState, int64) {}

func ownRSS() int64 { return 0 }
