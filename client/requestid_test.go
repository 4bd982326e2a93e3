package client_test

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/bursar/bursar/client"
)

// Stores keep request ids in an index. Ids that increase with time are adjacent there.
func TestRequestIDsRiseWithTime(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		seen := make(map[string]bool)
		last := ""
		for i := range 1000 {
			id := client.NewRequestID()
			if id <= last || len(id) != 26 {
				t.Fatalf("%q after %q: want 26 characters, later ones after earlier ones", id, last)
			}
			last = id
			for range 10 { // at the same time
				seen[client.NewRequestID()] = true
			}
			time.Sleep(time.Millisecond + time.Duration(i)*time.Hour)
		}
		if len(seen) != 10_000 {
			t.Errorf("%d ids are different; want 10,000", len(seen))
		}
	})
}
