package yarn_test

import (
	"maps"
	"testing"

	"github.com/bursar/bursar/providers"
	"github.com/bursar/bursar/providers/yarn"
	"github.com/bursar/bursar/resource"
)

// The settings have the defaults for requests that say nothing about applications.
func TestTermsOfRequests(t *testing.T) {
	application := func(memory, cpu int64) resource.Vector {
		return resource.Vector{}.With(resource.AMMemory, memory).With(resource.AMCPU, cpu).With(resource.Applications, 1)
	}
	kinds := providers.Kinds{yarn.Kind()}
	for name, test := range map[string]struct {
		kind     string
		settings map[string]string
		want     providers.Terms
	}{
		"nothing is set":  {"yarn", map[string]string{}, providers.Terms{Application: application(1<<30, 1000), UserLabel: "user"}},
		"all is set":      {"yarn", map[string]string{"am": "memory=2GiB,cpu=500m", "userLabel": "owner"}, providers.Terms{Application: application(2<<30, 500), UserLabel: "owner"}},
		"no users":        {"yarn", map[string]string{"userLabel": "none"}, providers.Terms{Application: application(1<<30, 1000)}},
		"memory alone":    {"yarn", map[string]string{"am": "memory=2GiB"}, providers.Terms{Application: resource.Vector{}.With(resource.AMMemory, 2<<30).With(resource.Applications, 1), UserLabel: "user"}},
		"starts awaited":  {"yarn", map[string]string{"awaitStarts": "true"}, providers.Terms{Application: application(1<<30, 1000), UserLabel: "user", AwaitStarts: true}},
		"a wrong setting": {"yarn", map[string]string{"am": "2GiB"}, providers.Terms{}},
		"another kind":    {"slurm", map[string]string{}, providers.Terms{}},
	} {
		if test.kind == "yarn" {
			test.settings["addresses"] = "http://rm1:8088"
		}
		got := kinds.Terms(test.kind, test.settings)
		if !got.Application.Equal(test.want.Application) || got.UserLabel != test.want.UserLabel || got.AwaitStarts != test.want.AwaitStarts {
			t.Errorf("%s: %v; want %v", name, got, test.want)
		}
	}
}

// Masters are rounded like containers: up to the smallest one, and to whole steps.
func TestHowContainersAreRounded(t *testing.T) {
	for name, test := range map[string]struct {
		settings map[string]string
		want     string // for masters of 1100 MiB and two and a half cores
	}{
		"not":       {nil, "memory=1100MiB,cpu=2500m"},
		"smallest":  {map[string]string{"smallestContainer": "memory=1GiB,cpu=1"}, "memory=2GiB,cpu=3"},
		"with step": {map[string]string{"smallestContainer": "memory=1GiB,cpu=1", "containerStep": "memory=512MiB,cpu=2"}, "memory=1.5GiB,cpu=4"},
	} {
		settings := map[string]string{"addresses": "http://rm1:8088"}
		maps.Copy(settings, test.settings)
		terms := providers.Kinds{yarn.Kind()}.Terms("yarn", settings)
		got, err := terms.Container.Apply(resource.Vector{}.WithMemory(1100 << 20).WithCPU(2500))
		if err != nil || got.String() != test.want {
			t.Errorf("%s: %s, %v; want %s", name, got, err, test.want)
		}
	}
}
