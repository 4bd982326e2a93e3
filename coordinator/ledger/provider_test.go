package ledger_test

import (
	"errors"
	"maps"
	"slices"
	"testing"
	"time"

	"github.com/bursar/bursar/coordinator/ledger"
	"github.com/bursar/bursar/label"
	"github.com/bursar/bursar/resource"
)

// A provider has changed if any part of it has, and then it is stored. Only if its settings
// changed it may be another cluster, of which nothing is known.
func TestAProviderWithAnotherPartHasChanged(t *testing.T) {
	for name, test := range map[string]struct {
		source          string // of the one before; the other one's is the API
		change          func(*ledger.ProviderRecord)
		changed, forgot bool
	}{
		"nothing":         {ledger.SourceAPI, func(*ledger.ProviderRecord) {}, false, false},
		"the source":      {"another", func(*ledger.ProviderRecord) {}, true, false},
		"the default":     {ledger.SourceAPI, func(p *ledger.ProviderRecord) { p.Default = true }, true, false},
		"a setting":       {ledger.SourceAPI, func(p *ledger.ProviderRecord) { p.Settings["addresses"] = "http://rm2" }, true, true},
		"one more":        {ledger.SourceAPI, func(p *ledger.ProviderRecord) { p.Settings["user"] = "bursar" }, true, true},
		"no settings":     {ledger.SourceAPI, func(p *ledger.ProviderRecord) { p.Settings = nil }, true, true},
		"another cluster": {ledger.SourceAPI, func(p *ledger.ProviderRecord) { p.Cluster = "dev" }, true, false},
	} {
		l := ready(t)
		p := ledger.ProviderRecord{ClusterName: yarnProd, Settings: map[string]string{"addresses": "http://rm1"}}
		must(t, l.SetProviders(start, test.source, []ledger.ProviderRecord{p}))
		must(t, l.ReportCluster(start, ledger.ClusterReport{ClusterName: yarnProd, Asked: start, GoodFor: time.Hour}))
		l.Changes()
		revision := l.Revision()
		test.change(&p) // what the ledger has is its own
		must(t, l.PutProvider(start, p))
		c := l.Changes()
		if changed := len(c.Providers) == 1; changed != test.changed || changed && !maps.Equal(c.Providers[0].Settings, p.Settings) {
			t.Errorf("%s: stored are %v; want it changed: %t", name, c.Providers, test.changed)
		}
		if got := l.Revision() - revision; got != uint64(len(c.Providers)) {
			t.Errorf("%s: %d revisions; want one for each change", name, got)
		}
		known := slices.ContainsFunc(l.Clusters(), func(c ledger.ClusterInfo) bool { return c.ClusterName == yarnProd && c.Known })
		if known == test.forgot {
			t.Errorf("%s: the cluster is known: %t", name, known)
		}
	}
}

// Names are what a row and an address can hold, and of each kind one cluster at most is the
// default.
func TestProvidersThatCannotHoldAreRefused(t *testing.T) {
	provider := func(kind, cluster string, change ...func(*ledger.ProviderRecord)) ledger.ProviderRecord {
		p := ledger.ProviderRecord{ClusterName: ledger.ClusterName{Kind: kind, Cluster: cluster}}
		for _, f := range change {
			f(&p)
		}
		return p
	}
	standard := func(p *ledger.ProviderRecord) { p.Default = true }
	setting := func(key, value string) func(*ledger.ProviderRecord) {
		return func(p *ledger.ProviderRecord) { p.Settings = map[string]string{key: value} }
	}
	for name, test := range map[string]struct {
		list  []ledger.ProviderRecord
		field string // empty: they are taken
	}{
		"no kind":                   {[]ledger.ProviderRecord{provider("", "prod")}, "provider.kind"},
		"a colon in the kind":       {[]ledger.ProviderRecord{provider("ya:rn", "prod")}, "provider.kind"},
		"a kind that is no text":    {[]ledger.ProviderRecord{provider("\xff", "prod")}, "provider.kind"},
		"no cluster":                {[]ledger.ProviderRecord{provider("yarn", "")}, "provider.cluster"},
		"a cluster that is no text": {[]ledger.ProviderRecord{provider("yarn", "\xff")}, "provider.cluster"},
		"one cluster twice":         {[]ledger.ProviderRecord{provider("yarn", "a"), provider("yarn", "a")}, "provider.cluster"},
		"a key that is no text":     {[]ledger.ProviderRecord{provider("yarn", "a", setting("\xff", "1"))}, "provider.settings"},
		"a value that is no text":   {[]ledger.ProviderRecord{provider("yarn", "a", setting("user", "\xff"))}, "provider.settings[user]"},
		"two defaults of one kind":  {[]ledger.ProviderRecord{provider("yarn", "a", standard), provider("yarn", "b", standard)}, "provider.default"},
		"a default of each kind":    {[]ledger.ProviderRecord{provider("yarn", "a", standard), provider("k8s", "a", standard)}, ""},
		"what is text":              {[]ledger.ProviderRecord{provider("yarn", "prod:ü", setting("ü", "ü")), provider("yarn", "b", standard)}, ""},
	} {
		err := ready(t).SetProviders(start, "file:a", test.list)
		wrong, refused := errors.AsType[*ledger.FieldError](err)
		if (err != nil) != refused || refused != (test.field != "") || refused && wrong.Field != test.field {
			t.Errorf("%s: %v; want the field %q", name, err, test.field)
		}
	}
}

// What a batch says of one provider leaves what it says of others.
func TestABatchHoldsWhatBecameOfEachProvider(t *testing.T) {
	l := ready(t)
	name := func(cluster string) ledger.ClusterName { return ledger.ClusterName{Kind: "yarn", Cluster: cluster} }
	for _, cluster := range []string{"a", "b", "c"} {
		must(t, l.PutProvider(start, ledger.ProviderRecord{ClusterName: name(cluster)}))
	}
	must(t, l.DeleteProvider(start, name("a")))
	must(t, l.DeleteProvider(start, name("b")))
	must(t, l.PutProvider(start, ledger.ProviderRecord{ClusterName: name("b")}))
	c := l.Changes()
	var put []string
	for _, p := range c.Providers {
		put = append(put, p.Cluster)
	}
	if !slices.Equal(put, []string{"c", "b"}) || !slices.Equal(c.ProvidersRemoved, []ledger.ClusterName{name("a")}) {
		t.Errorf("put %v, removed %v; want c and b, and a", put, c.ProvidersRemoved)
	}
}

// The provider of a cluster may have left its file while no coordinator ran.
func TestAfterALoadEnginesOnLostHostsNeedAProviderToLive(t *testing.T) {
	row := func(id ledger.ID, lease time.Duration) ledger.Allocation {
		a := ledger.Allocation{
			ID: id, State: ledger.Active, HostID: "h1", Caller: "alice", Created: start, Reserved: start, Confirmed: start, Revision: uint64(id),
			ApplicationIDs: []string{"app_1"}, Lease: lease, Labels: label.Of("user", "alice"),
			Entitled: resource.Resource{External: []resource.External{{
				Address: resource.Address{Kind: "yarn", Cluster: "prod", Path: "root.a"}, Vector: resource.Vector{}.WithMemory(1),
			}}},
		}
		if lease > 0 {
			a.Expires = start.Add(lease)
		}
		return a
	}
	for _, configured := range []bool{true, false} {
		s := ledger.Snapshot{
			Revision: 9, LastID: 9, Hosts: []ledger.HostRecord{{ID: "h1", Incarnation: 1, Lost: true}},
			Allocations: []ledger.Allocation{row(1, 0), row(2, time.Hour)},
		}
		if configured {
			s.Providers = []ledger.ProviderRecord{{ClusterName: yarnProd}}
		}
		l := ledger.New(ledger.Config{}, newPlainPlacer())
		must(t, l.Restore(start, s))
		want := []ledger.State{ledger.Lost}
		if configured {
			want = nil
		}
		var got []ledger.State
		for _, a := range l.Changes().Transitions {
			got = append(got, a.State)
			if a.ID != 1 {
				t.Errorf("%s became %s", a.ID, a.State)
			}
		}
		if !slices.Equal(got, want) {
			t.Errorf("configured %t: %v, want %v", configured, got, want)
		}
	}
}
