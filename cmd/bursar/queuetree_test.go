package main

import (
	"testing"
	"time"

	"github.com/bursar/bursar/internal/cli/failure"
	"github.com/bursar/bursar/internal/cli/render"
	bursarv1 "github.com/bursar/bursar/proto/bursar/v1"
	"github.com/bursar/bursar/resource"
)

func TestShortTimesKeepTheirSense(t *testing.T) {
	for d, want := range map[time.Duration]string{0: "", 12345 * time.Microsecond: "12ms", 5 * time.Second: "5s", 1254 * time.Millisecond: "1.25s"} {
		if got := secondsText(d); got != want {
			t.Errorf("%v: %q, want %q", d, got, want)
		}
	}
}

func TestQueueArguments(t *testing.T) {
	for text, want := range map[string]resource.Address{
		"yarn":                 {Kind: "yarn"},
		"yarn:prod":            {Kind: "yarn", Cluster: "prod"},
		"yarn:prod:root.a":     {Kind: "yarn", Cluster: "prod", Path: "root.a"},
		"yarn:prod:root.a@gpu": {Kind: "yarn", Cluster: "prod", Path: "root.a", Partition: "gpu"},
		"yarn::a1":             {Kind: "yarn", Path: "a1"},
	} {
		if got, err := queueArg(text); err != nil || got != want {
			t.Errorf("%q: %v, %v; want %v", text, got, err, want)
		}
	}
	for _, text := range []string{"", ":", "yarn:", ":prod", "yarn:prod:", "yarn::"} {
		if at, err := queueArg(text); failure.ExitCode(err) != failure.ExitUsage {
			t.Errorf("%q: %v, %v", text, at, err)
		}
	}
	for _, text := range []string{"yarn", "yarn:", ":prod", "yarn:prod:root", ""} {
		if _, _, err := clusterArg(text); failure.ExitCode(err) != failure.ExitUsage {
			t.Errorf("cluster %q: %v", text, err)
		}
	}
}

func TestOnlyClusterIsTheDefault(t *testing.T) {
	one := &bursarv1.Provider{Kind: "yarn", Cluster: "one"}
	two := &bursarv1.Provider{Kind: "yarn", Cluster: "two"}
	chosen := &bursarv1.Provider{Kind: "yarn", Cluster: "chosen", Default: true}
	other := &bursarv1.Provider{Kind: "other", Cluster: "one"}
	for _, test := range []struct {
		of   *bursarv1.Provider
		all  []*bursarv1.Provider
		want string
	}{
		{one, []*bursarv1.Provider{one, other}, "yes, the only one"},
		{one, []*bursarv1.Provider{one, two}, ""},
		{one, []*bursarv1.Provider{one, chosen}, ""},
		{chosen, []*bursarv1.Provider{one, chosen}, "yes"},
	} {
		if got := defaultText(test.of, test.all); got != test.want {
			t.Errorf("%s among %d: %q, want %q", render.ProviderName(test.of), len(test.all), got, test.want)
		}
	}
}
