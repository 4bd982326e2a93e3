// Package soak makes an agent and a coordinator work for long and checks whether anything of them
// grows: memory, goroutines, descriptors, files. TestMinutes does so with the shipped programs,
// real processes as engines and a real clock; TestDays with all loops of both in one bubble of
// testing/synctest, a simulated machine, and days that pass in seconds.
//
// `make test` runs ten days and part of the minutes, `make soak` all.
package soak

import (
	"flag"
	"os"
	"testing"
	"time"

	"go.uber.org/goleak"
)

var (
	minutes = flag.Duration("soak.for", 40*time.Second, "how long TestMinutes goes on")
	days    = flag.Int("soak.days", 10, "how many days pass in TestDays")
)

func TestMain(m *testing.M) {
	flag.Parse()
	if os.Getenv(asEngine) != "" {
		beEngine()
		return
	}
	goleak.VerifyTestMain(m)
}
