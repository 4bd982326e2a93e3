package yarn_test

import (
	"strings"
	"testing"
	"time"

	"github.com/bursar/bursar/test/yarn"
)

// Every version starts, takes an application, and lets go of it.
func TestEveryVersionRunsAnApplication(t *testing.T) {
	for _, version := range []string{yarn.Hadoop27, yarn.Hadoop210, yarn.Hadoop33, yarn.Hadoop34, yarn.Hadoop35} {
		t.Run(version, func(t *testing.T) {
			began := time.Now()
			c := yarn.Start(t, yarn.Options{Version: version})
			t.Logf("up after %v", time.Since(began))
			id := c.Submit(t, yarn.Application{Queue: "default", MemoryMiB: 2048, VCores: 2})
			c.AwaitAllocated(t, id)
			t.Logf("runs after %v", time.Since(began))
			if said := string(c.Get(t, "scheduler")); !strings.Contains(said, `"resourcesUsed":{"memory":2048,"vCores":2`) {
				t.Errorf("not used: %s", said)
			}
			c.Kill(t, id)
			t.Logf("over after %v", time.Since(began))
		})
	}
}
