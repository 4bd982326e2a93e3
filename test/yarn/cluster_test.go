package yarn_test

import (
	"net/http"
	"os"
	"path/filepath"
	"testing"

	"github.com/bursar/bursar/test/yarn"
)

// scenario is a configuration of queues and its checks.
type scenario struct {
	name     string
	capacity map[string]string // of the CapacityScheduler
	fair     string            // of the FairScheduler, if set
	run      func(t *testing.T, c *yarn.Cluster)
}

// TestSchedulers runs one scheduler after another on a cluster of each version. The remaining
// applications end with the cluster.
func TestSchedulers(t *testing.T) {
	t.Parallel()
	for version, scenarios := range map[string][]func(version string) scenario{
		yarn.Hadoop27:  {inPercent, fairScheduler, byTheDefaultCalculator},
		yarn.Hadoop210: {inPercent, fairScheduler},
		yarn.Hadoop33:  {inPercent, inAbsoluteResources, fairScheduler},
		yarn.Hadoop34:  {inPercent, inAbsoluteResources, inWeights, fairScheduler, byTheDefaultCalculator},
		yarn.Hadoop35:  {inPercent, inAbsoluteResources, inWeights, fairScheduler},
	} {
		t.Run(version, func(t *testing.T) {
			t.Parallel()
			var c *yarn.Cluster
			queue := "default"
			t.Cleanup(func() { nothingIsLeft(t, c) }) // after it was closed
			for i, of := range scenarios {
				s := of(version)
				if i == 0 {
					c = yarn.Start(t, yarn.Options{Version: version, Capacity: s.capacity, Fair: s.fair})
				} else {
					c.Restart(t, s.capacity, s.fair)
				}
				t.Run(s.name, func(t *testing.T) { s.run(t, c) })
				if s.fair != "" {
					queue = "root.default"
				} else {
					queue = "default"
				}
			}
			id := c.Submit(t, yarn.Application{Queue: queue, MemoryMiB: 1024, VCores: 1})
			c.AwaitLaunched(t, id)
		})
	}
}

// nothingIsLeft checks that all processes of a cluster have ended with it, including containers,
// and that its folder is gone.
func nothingIsLeft(t *testing.T, c *yarn.Cluster) {
	t.Helper()
	if c == nil { // it did not start
		return
	}
	dir := filepath.Dir(filepath.Dir(filepath.Dir(c.Site())))
	if left := standing(t, dir); left != 0 {
		t.Errorf("%d processes are left", left)
	}
	if _, err := os.Stat(dir); !os.IsNotExist(err) {
		t.Errorf("the folder: %v", err)
	}
	if response, err := http.Get(c.URL()); err == nil {
		response.Body.Close()
		t.Error("the ResourceManager answers")
	}
}

// standing counts the processes in a folder.
func standing(t *testing.T, dir string) (count int) {
	t.Helper()
	list, err := filepath.Glob("/proc/[0-9]*/cwd")
	if err != nil {
		t.Fatal(err)
	}
	for _, link := range list {
		if at, err := os.Readlink(link); err == nil && (at == dir || len(at) > len(dir) && at[:len(dir)+1] == dir+"/") {
			count++
		}
	}
	return count
}
