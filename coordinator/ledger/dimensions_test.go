package ledger_test

import (
	"errors"
	"slices"
	"strings"
	"testing"

	"github.com/bursar/bursar/coordinator/ledger"
	"github.com/bursar/bursar/resource"
)

// A rule for a dimension that nothing declares is refused, with the one that was probably meant.
func TestAnUndeclaredDimensionIsRefusedWithTheNearestOne(t *testing.T) {
	for dimension, want := range map[string]string{
		"memroy": "memory, or", "Memory2": "memory, or", "cores": "cpu, or", "vcores": "cpu, or", "mem": "memory, or",
		"instance": "instances, or", "licences": "licence, or", "gpus": "a dimension", "gpu": "a dimension", "fpga": "a dimension",
	} {
		l := ledger.New(ledger.Config{Dimensions: []string{"licence"}}, newPlainPlacer())
		for field, q := range map[string]ledger.Quota{
			"limit":                   {Limit: resource.Vector{}.With(dimension, 1)},
			"guaranteed":              {Guaranteed: resource.Vector{}.With(dimension, 1)},
			"normalization.minimum":   {Normalization: &resource.Normalization{Minimum: resource.Vector{}.With(dimension, 1)}},
			"normalization.increment": {Normalization: &resource.Normalization{Increment: resource.Vector{}.With(dimension, 1)}},
			"normalization.maximum":   {Normalization: &resource.Normalization{Maximum: resource.Vector{}.With(dimension, 1)}},
		} {
			err := l.PutQuota(start, q)
			wrong, ok := errors.AsType[*ledger.FieldError](err)
			if !ok || wrong.Field != "*: "+field+"."+dimension || wrong.Value != dimension || !strings.HasPrefix(wrong.Want, want) {
				t.Errorf("%s in %s: %v; want a refusal with %q", dimension, field, err, want)
			}
		}
	}
}

// What a host, a queue or the configuration has is declared, as long as it has it.
func TestADimensionIsDeclaredWhileSomethingHasIt(t *testing.T) {
	l := ledger.New(ledger.Config{Dimensions: []string{"licence"}}, newPlainPlacer())
	must(t, l.PutQuota(start, ledger.Quota{Limit: resource.Vector{}.With("licence", 1)}))
	rule := ledger.Quota{Selector: selector(t, "user=*"), Limit: resource.Vector{}.With("gpu", 1)}
	undeclared := func() bool {
		t.Helper()
		_, err := l.ApplyQuotas(start, ledger.QuotaSet{Quotas: []ledger.Quota{rule}, DryRun: true})
		return err != nil
	}
	generation := l.DimensionsGeneration()
	step := func(what string, want bool) {
		t.Helper()
		if undeclared() != want {
			t.Errorf("%s: gpu is undeclared: %t; want %t", what, !want, want)
		}
		if got := l.DimensionsGeneration(); got == generation {
			t.Errorf("%s: the generation stays %d", what, got)
		} else {
			generation = got
		}
	}
	register := func(capacity resource.Vector, incarnation uint64) {
		t.Helper()
		_, err := l.Register(start, ledger.RegisterCommand{HostID: "h1", Incarnation: incarnation, Capacity: capacity})
		must(t, err)
	}
	gpu := resource.Vector{}.WithMemory(8).With("gpu", 1)
	register(gpu, 1)
	step("a host has it", false)
	register(resource.Vector{}.WithMemory(8), 2)
	step("no host has it any more", true)
	register(gpu, 3)
	step("a host has it again", false)
	must(t, l.Deregister(start, "h1", false))
	step("the host was removed", true)

	prod := ledger.ClusterName{Kind: "yarn", Cluster: "prod"}
	must(t, l.PutProvider(start, ledger.ProviderRecord{ClusterName: prod}))
	must(t, l.ReportCluster(start, ledger.ClusterReport{
		ClusterName: prod, Asked: start, GoodFor: 1, Queues: []ledger.QueueReport{{Path: "root", Limit: resource.Vector{}.With("gpu", 9)}},
	}))
	step("a queue has it", false)
	must(t, l.DeleteProvider(start, prod))
	step("the cluster was removed", true)
}

// A restored ledger knows what its hosts have.
func TestARestoredLedgerKnowsTheDimensionsOfItsHosts(t *testing.T) {
	l := ledger.New(ledger.Config{}, newPlainPlacer())
	gpu := resource.Vector{}.With("gpu", 1)
	must(t, l.Restore(start, ledger.Snapshot{
		Hosts:  []ledger.HostRecord{{ID: "h1", Capacity: gpu}},
		Quotas: []ledger.Quota{{Limit: gpu, Source: ledger.SourceAPI}, {Selector: selector(t, "user=*"), Limit: resource.Vector{}.With("memroy", 1), Source: "file:/q.yaml"}},
	}))
	var got []string
	for _, u := range l.UndeclaredDimensions() {
		got = append(got, u.String())
	}
	want := []string{"quota user=* of file:/q.yaml is for memroy, and no host, external cluster or configuration (dimensions) has that: did you mean memory?"}
	if !slices.Equal(got, want) {
		t.Errorf("undeclared: %q; want %q", got, want)
	}
}
