package coordinator

import (
	"errors"
	"maps"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/bursar/bursar/internal/reload"
	bursarv1 "github.com/bursar/bursar/proto/bursar/v1"
	"github.com/bursar/bursar/test/fakecluster"
)

func TestEveryFieldSaysWhetherAReloadChangesIt(t *testing.T) {
	if left := reload.Untagged(Config{}); left != nil {
		t.Errorf("want reload:\"live\" or reload:\"start\" at %v", left)
	}
	// Each of them has a test below, or in the program that reads it (logLevel).
	if diff := cmp.Diff([]string{"quotaFiles", "providersFile", "logLevel", "output.callerRate", "output.rate"}, reload.Live(Config{})); diff != "" {
		t.Error(diff)
	}
}

// reload reloads, which must work.
func (f *fixture) reload(config Config) reload.Changes {
	f.tb.Helper()
	changes, err := f.server.Reload(f.tb.Context(), config)
	if err != nil {
		f.tb.Fatal(err)
	}
	return changes
}

// limits are those on memory that are in force, by source.
func (f *fixture) limits() map[string]int64 {
	f.tb.Helper()
	res, err := f.quotas.List(f.tb.Context(), &bursarv1.QuotaServiceListRequest{})
	if err != nil {
		f.tb.Fatal(err)
	}
	found := make(map[string]int64)
	for _, q := range res.GetQuotas() {
		found[filepath.Base(q.GetSource())+" "+q.GetSelector()["user"]] = q.GetLimit().GetMemoryBytes() / gib
	}
	return found
}

func quotaYAML(user, limit string) string {
	return "quotas:\n- selector: {user: " + user + "}\n  limit: {memory: " + limit + "}\n"
}

func TestReloadTakesQuotaFilesOver(t *testing.T) {
	dir := t.TempDir()
	one, two := filepath.Join(dir, "one.yaml"), filepath.Join(dir, "two.yaml")
	writeFile(t, one, quotaYAML("alice", "1GiB"))
	writeFile(t, two, quotaYAML("bob", "2GiB"))
	f := start(t, Config{QuotaFiles: []string{one}}, nil)
	want := func(rules map[string]int64) {
		t.Helper()
		if diff := cmp.Diff(rules, f.limits()); diff != "" {
			t.Error(diff)
		}
	}
	want(map[string]int64{"one.yaml alice": 1})

	base := f.server.config
	writeFile(t, one, quotaYAML("alice", "3GiB"))
	if changes := f.reload(base); !changes.Empty() {
		t.Errorf("the configuration is the same, but %+v", changes)
	}
	want(map[string]int64{"one.yaml alice": 3})

	both := base
	both.QuotaFiles, both.Placement = []string{one, two}, "binpack"
	if diff := cmp.Diff(reload.Changes{Taken: []string{"quotaFiles"}, Kept: []string{"placement"}}, f.reload(both)); diff != "" {
		t.Error(diff)
	}
	want(map[string]int64{"one.yaml alice": 3, "two.yaml bob": 2})

	// A rule moves from one file to another, and one that is no longer named takes its rules with
	// it.
	writeFile(t, two, quotaYAML("alice", "4GiB"))
	moved := base
	moved.QuotaFiles = []string{two}
	f.reload(moved)
	want(map[string]int64{"two.yaml alice": 4})

	for name, wrong := range map[string]string{
		"a file that is wrong":       "quotas:\n- limit: {memory: 1GiB}\n",
		"a rule that is there twice": quotaYAML("alice", "9GiB"),
	} {
		writeFile(t, one, wrong)
		_, err := f.server.Reload(t.Context(), both)
		if err == nil || !strings.Contains(err.Error(), ".yaml:2:") {
			t.Errorf("%s: %v", name, err)
		}
		want(map[string]int64{"two.yaml alice": 4})
	}
	if _, err := f.server.Reload(t.Context(), Config{Listen: "nowhere"}); err == nil {
		t.Error("a wrong configuration was taken")
	}
	f.reload(Config{Listen: base.Listen})
	want(map[string]int64{})
	if err := os.Remove(one); err != nil {
		t.Fatal(err)
	}
	f.reload(moved)
	want(map[string]int64{"two.yaml alice": 4})
}

func TestReloadTakesProvidersOver(t *testing.T) {
	dir := t.TempDir()
	file, path := filepath.Join(dir, "providers.yaml"), filepath.Join(dir, "ledger.db")
	f := start(t, Config{}, openSQLite(t, path), knows(fakecluster.New()))
	base := f.server.config
	f.putProvider("prod", "there")
	if _, err := f.queues.PutProvider(t.Context(), &bursarv1.PutProviderRequest{
		Provider: &bursarv1.Provider{Kind: "fake", Cluster: "zeta", Default: true, Settings: map[string]string{"address": "there"}},
	}); err != nil {
		t.Fatal(err)
	}
	before := f.providers()
	same := func() {
		t.Helper()
		now := f.providers()
		if len(now) != len(before) {
			t.Errorf("%v, were %v", now, before)
		}
		for name, was := range before {
			if p := now[name]; p.GetSource() != was.GetSource() || p.GetDefault() != was.GetDefault() || !maps.Equal(p.GetSettings(), was.GetSettings()) {
				t.Errorf("%s is %v, was %v", name, p, was)
			}
		}
	}

	writeFile(t, file, providersYAML) // fake:prod, the default
	named := base
	named.ProvidersFile = file
	if diff := cmp.Diff([]string{"providersFile"}, f.reload(named).Taken); diff != "" {
		t.Error(diff)
	}
	f.read("prod")
	list := f.providers()
	if p := list["prod"]; p.GetSource() != "file:"+file || !p.GetDefault() || list["zeta"].GetDefault() {
		t.Errorf("%v", list)
	}
	if warnings := strings.Join(f.status().GetWarnings(), "\n"); !strings.Contains(warnings, "provider fake:prod is that of file:"+file) {
		t.Errorf("%s", warnings)
	}

	writeFile(t, file, "providers:\n  - {kind: fake, cluster: other, settings: {address: here}}\n")
	f.reload(named)
	f.read("other")
	if list = f.providers(); list["prod"].GetSource() != "api" || !list["zeta"].GetDefault() || list["other"] == nil {
		t.Errorf("%v", list)
	}

	writeFile(t, file, "providers:\n  - {kind: unknown, cluster: other}\n")
	if _, err := f.server.Reload(t.Context(), named); err == nil || !strings.Contains(err.Error(), file+":2:") {
		t.Errorf("%v", err)
	}
	if f.providers()["other"] == nil {
		t.Error("a wrong file has changed something")
	}
	f.reload(base)
	same()

	// What the file hid has stayed stored as it was.
	writeFile(t, file, providersYAML)
	f.reload(named)
	f.stop()
	f = start(t, Config{}, openSQLite(t, path), knows(fakecluster.New()))
	same()
}

func TestReloadReadsIdentitiesAndRefusesWrongOnes(t *testing.T) {
	dir := t.TempDir()
	file := filepath.Join(dir, "identities.yaml")
	entry := func(name string) string {
		return "identities:\n- {name: " + name + ", role: admin, tokenHash: 'sha256:" + strings.Repeat("ab", 32) + "'}\n"
	}
	writeFile(t, file, entry("ops"))
	f := start(t, Config{Identities: file}, nil)
	writeFile(t, file, entry("others"))
	f.reload(f.server.config)
	if got := f.server.trust.identities.Identities().Entries(); len(got) != 1 || got[0].Actor.Name != "others" {
		t.Errorf("%+v", got)
	}
	writeFile(t, file, "identities: nobody\n")
	_, err := f.server.Reload(t.Context(), f.server.config)
	if err == nil || !strings.Contains(err.Error(), file) {
		t.Errorf("%v", err)
	}
	if got := f.server.trust.identities.Identities().Entries(); len(got) != 1 {
		t.Errorf("%+v", got)
	}
}

func TestCheckFindsWhatAStartWouldRefuse(t *testing.T) {
	dir := t.TempDir()
	quotas, providers := filepath.Join(dir, "quotas.yaml"), filepath.Join(dir, "providers.yaml")
	writeFile(t, quotas, quotaYAML("alice", "1GiB")+"- selector: {user: alice}\n  limit: {memory: 2GiB}\n")
	writeFile(t, providers, "providers:\n  - {kind: unknown, cluster: other}\n")
	for name, config := range map[string]Config{
		quotas + ":4": {QuotaFiles: []string{quotas}}, providers + ":2": {ProvidersFile: providers},
		"listen": {Listen: "0.0.0.0:1"}, "logLevel": {LogLevel: "loud"}, "identities": {Identities: filepath.Join(dir, "none")},
		"tls.cert": {TLS: (Config{}).TLS, Peers: Peers{}, Listen: "0.0.0.0:7070"},
	} {
		if err := Check(config, nil, false); err == nil || !strings.Contains(err.Error(), name) {
			t.Errorf("%s: %v", name, err)
		}
	}
	if err := Check(Config{}, nil, false); err != nil {
		t.Error(err)
	}
	var wrong *ConfigError
	if err := Check(Config{Identities: filepath.Join(dir, "none")}, nil, false); !errors.As(err, &wrong) {
		t.Errorf("%v", err)
	}
}

func TestReloadChangesTheRatesOfOutput(t *testing.T) {
	f := start(t, Config{}, nil)
	if got := f.server.readers.Rates(); got.Caller != 16*mib || got.All != 64*mib {
		t.Errorf("at first: %+v", got)
	}
	next := f.server.config
	next.Output = Output{CallerRate: 1 << 20, Rate: 2 << 20}
	if changes := f.reload(next); len(changes.Taken) != 2 || len(changes.Kept) != 0 {
		t.Errorf("%+v", changes)
	}
	if got := f.server.readers.Rates(); got.Caller != mib || got.All != 2*mib {
		t.Errorf("after the reload: %+v", got)
	}
	next.Output.Rate = 1
	if _, err := f.server.Reload(t.Context(), next); err == nil || !strings.Contains(err.Error(), "output.rate") {
		t.Errorf("a rate of one byte: %v", err)
	}
}
