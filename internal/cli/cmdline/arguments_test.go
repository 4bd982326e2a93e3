package cmdline

import (
	"testing"

	"github.com/bursar/bursar/internal/cli/failure"
	"github.com/bursar/bursar/resource"
)

func TestQueueArguments(t *testing.T) {
	for text, want := range map[string]resource.Address{
		"yarn":                 {Kind: "yarn"},
		"yarn:prod":            {Kind: "yarn", Cluster: "prod"},
		"yarn:prod:root.a":     {Kind: "yarn", Cluster: "prod", Path: "root.a"},
		"yarn:prod:root.a@gpu": {Kind: "yarn", Cluster: "prod", Path: "root.a", Partition: "gpu"},
		"yarn::a1":             {Kind: "yarn", Path: "a1"},
	} {
		if got, err := QueueArg(text); err != nil || got != want {
			t.Errorf("%q: %v, %v; want %v", text, got, err, want)
		}
	}
	for _, text := range []string{"", ":", "yarn:", ":prod", "yarn:prod:", "yarn::"} {
		if at, err := QueueArg(text); failure.ExitCode(err) != failure.ExitUsage {
			t.Errorf("%q: %v, %v", text, at, err)
		}
	}
	for _, text := range []string{"yarn", "yarn:", ":prod", "yarn:prod:root", ""} {
		if _, _, err := ClusterArg(text); failure.ExitCode(err) != failure.ExitUsage {
			t.Errorf("cluster %q: %v", text, err)
		}
	}
}
