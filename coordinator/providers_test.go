package coordinator

import (
	"context"
	"errors"
	"maps"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"connectrpc.com/connect"
	"github.com/google/go-cmp/cmp"

	bursarv1 "github.com/bursar/bursar/proto/bursar/v1"
	"github.com/bursar/bursar/providers"
	"github.com/bursar/bursar/test/fakecluster"
)

func TestProvidersComeAndGoAtRunTime(t *testing.T) {
	f, here := queueOf(t, Config{}, nil)
	kept := f.allocate(external("", "root.a", gib))
	f.putProvider("test", "there")
	f.read("test")
	if err := f.refused(external("", "root.a", gib)); connect.CodeOf(err) != connect.CodeInvalidArgument || !strings.Contains(err.Error(), "prod, test") {
		t.Errorf("with two clusters and no default: %v", err)
	}
	named := external("", "root.a", gib)
	named.Labels["cluster"] = "test"
	if a := f.allocate(named); a.GetEntitled().GetExternal()[0].GetCluster() != "test" {
		t.Errorf("%v", a)
	}
	change := &bursarv1.Provider{Kind: "fake", Cluster: "test", Settings: map[string]string{"address": "elsewhere"}, Default: true}
	put, err := f.queues.PutProvider(t.Context(), &bursarv1.PutProviderRequest{Provider: change})
	if err != nil || put.GetProvider().GetSource() != "api" || !put.GetProvider().GetDefault() {
		t.Errorf("%v, %v", put, err)
	}
	eventually(t, "it is read elsewhere", func() bool { return len(here.Kind.Cluster("elsewhere").Times()) > 0 })
	change = &bursarv1.Provider{Kind: "fake", Cluster: "prod", Settings: map[string]string{"address": "here"}, Default: true}
	if _, err := f.queues.PutProvider(t.Context(), &bursarv1.PutProviderRequest{Provider: change}); fieldOf(err) != "provider.default" {
		t.Errorf("a second default: %v", err)
	}
	if _, err := f.queues.DeleteProvider(t.Context(), &bursarv1.DeleteProviderRequest{Kind: "fake", Cluster: "prod"}); err != nil {
		t.Fatal(err)
	}
	if list := f.providers(); len(list) != 1 || list["test"] == nil {
		t.Errorf("%v", list)
	}
	eventually(t, "nobody reads prod", func() bool { return here.Kind.ProvidersOpen() == 1 })
	if got := f.get(kept.GetId()); got.GetState() != bursarv1.AllocationState_ALLOCATION_STATE_RESERVED {
		t.Errorf("what was granted there is %s", got.GetState())
	}
	named = external("", "root.a", gib)
	named.Resource.External[0].Cluster = "prod"
	if err := f.refused(named); connect.CodeOf(err) != connect.CodeInvalidArgument {
		t.Errorf("in a cluster that is gone: %v", err)
	}
	_, err = f.queues.DeleteProvider(t.Context(), &bursarv1.DeleteProviderRequest{Kind: "fake", Cluster: "prod"})
	if connect.CodeOf(err) != connect.CodeNotFound {
		t.Errorf("a second time: %v", err)
	}
	f.audited()
}

func TestProvidersOverTheAPIOutliveARestart(t *testing.T) {
	path := filepath.Join(t.TempDir(), "ledger.db")
	f, here := queueOf(t, Config{}, openSQLite(t, path))
	f.allocate(external("", "root.a", 3*gib))
	before := f.providers()["prod"]
	f.stop()
	f = start(t, Config{}, openSQLite(t, path), knows(here.Kind))
	f.read("prod")
	after := f.providers()["prod"]
	if diff := cmp.Diff(before.GetSettings(), after.GetSettings()); diff != "" || after.GetSource() != "api" || after.GetDefault() {
		t.Errorf("%v: %s", after, diff)
	}
	if q := f.queue("root.a"); q.GetAccount().GetReserved().GetMemoryBytes() != 3*gib || q.GetAvailable().GetMemoryBytes() != gib {
		t.Errorf("%v", q)
	}
	f.audited()
}

const providersYAML = "providers:\n  - kind: fake\n    cluster: prod\n    default: true\n    settings: {address: here, interval: 2s}\n"

func TestProvidersOfAFileAreTheFilesToChange(t *testing.T) {
	file := filepath.Join(t.TempDir(), "providers.yaml")
	writeFile(t, file, providersYAML)
	path := filepath.Join(t.TempDir(), "ledger.db")
	f := start(t, Config{ProvidersFile: file}, openSQLite(t, path), knows(fakecluster.New()))
	f.read("prod")
	if p := f.providers()["prod"]; p.GetSource() != "file:"+file || !p.GetDefault() || p.GetHealth().GetServer() != "rm1" || p.GetHealth().GetQueues() != 3 {
		t.Errorf("%v", p)
	}
	_, err := f.queues.PutProvider(t.Context(), &bursarv1.PutProviderRequest{
		Provider: &bursarv1.Provider{Kind: "fake", Cluster: "prod", Settings: map[string]string{"address": "there"}},
	})
	if connect.CodeOf(err) != connect.CodeFailedPrecondition {
		t.Errorf("put over it: %v", err)
	}
	if _, err := f.queues.DeleteProvider(t.Context(), &bursarv1.DeleteProviderRequest{Kind: "fake", Cluster: "prod"}); connect.CodeOf(err) != connect.CodeFailedPrecondition {
		t.Errorf("delete it: %v", err)
	}
	f.stop()
	f = start(t, Config{}, openSQLite(t, path), knows(fakecluster.New()))
	if list := f.providers(); len(list) != 0 {
		t.Errorf("without the file there are %v", list)
	}
}

// Coordinators may have different files, and the API knows that of the leader alone. Who leads
// next must not be kept from it.
func TestAFileHidesWhatTheAPIHasSet(t *testing.T) {
	dir := t.TempDir()
	file, path := filepath.Join(dir, "providers.yaml"), filepath.Join(dir, "ledger.db")
	f := start(t, Config{}, openSQLite(t, path), knows(fakecluster.New()))
	f.putProvider("stored", "here")
	f.putProvider("prod", "there")
	if _, err := f.queues.PutProvider(t.Context(), &bursarv1.PutProviderRequest{
		Provider: &bursarv1.Provider{Kind: "fake", Cluster: "zeta", Default: true, Settings: map[string]string{"address": "there"}},
	}); err != nil {
		t.Fatal(err)
	}
	before := f.providers()
	f.stop()

	writeFile(t, file, providersYAML) // fake:prod, the default
	f = start(t, Config{ProvidersFile: file}, openSQLite(t, path), knows(fakecluster.New()))
	list := f.providers()
	if p := list["prod"]; p.GetSource() != "file:"+file || !p.GetDefault() || list["zeta"].GetDefault() || list["stored"] == nil {
		t.Errorf("%v", list)
	}
	warnings := strings.Join(f.status().GetWarnings(), "\n")
	for _, want := range []string{"provider fake:prod is that of file:" + file, "the default is fake:prod"} {
		if !strings.Contains(warnings, want) {
			t.Errorf("no warning %q in %s", want, warnings)
		}
	}
	f.stop()

	f = start(t, Config{}, openSQLite(t, path), knows(fakecluster.New()))
	for name, p := range f.providers() {
		if was := before[name]; p.GetSource() != was.GetSource() || p.GetDefault() != was.GetDefault() || !maps.Equal(p.GetSettings(), was.GetSettings()) {
			t.Errorf("without the file %s is %v, was %v", name, p, was)
		}
	}
}

func TestAWrongProvidersFileRefusesTheStart(t *testing.T) {
	file := filepath.Join(t.TempDir(), "providers.yaml")
	for name, c := range map[string]struct{ text, want string }{
		"malformed":                {"providers: [", file + ":1"},
		"an unknown kind":          {"providers:\n  - {kind: yarn, cluster: a}\n", file + ":2:12: providers[0].kind"},
		"a wrong setting":          {"providers:\n  - kind: fake\n    cluster: a\n    settings: {address: a, interval: 1s}\n", file + ":4:38: providers[0].settings.interval"},
		"a file that is not there": {"", "no such file"},
	} {
		writeFile(t, file, c.text)
		if c.text == "" {
			if err := os.Remove(file); err != nil {
				t.Fatal(err)
			}
		}
		s, err := New(Config{Listen: "127.0.0.1:0", ProvidersFile: file}, Dependencies{Store: newMemoryStore(), Kinds: providers.Kinds{fakecluster.New()}})
		if err != nil {
			t.Fatal(err)
		}
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		if err := s.Run(ctx); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: got %v, want %s", name, err, c.want)
		}
	}
}

func TestWhatIsWrongWithAProviderIsSaid(t *testing.T) {
	dir := t.TempDir()
	secrets := filepath.Join(dir, "secrets")
	if err := os.Mkdir(secrets, 0o700); err != nil {
		t.Fatal(err)
	}
	kind := fakecluster.New()
	f := start(t, Config{ProviderCredentials: secrets}, nil, knows(kind))
	put := func(kind, cluster string, settings ...string) error {
		p := &bursarv1.Provider{Kind: kind, Cluster: cluster, Settings: map[string]string{}}
		for i := 0; i < len(settings); i += 2 {
			p.Settings[settings[i]] = settings[i+1]
		}
		_, err := f.queues.PutProvider(t.Context(), &bursarv1.PutProviderRequest{Provider: p})
		return err
	}
	outside := filepath.Join(dir, "outside")
	writeFile(t, outside, "secret")
	if err := put("yarn", "prod", "address", "here"); connect.CodeOf(err) != connect.CodeInvalidArgument || !strings.Contains(err.Error(), `"yarn": want fake`) {
		t.Errorf("unknown kind: %v", err)
	}
	for name, c := range map[string]struct {
		err   error
		field string
	}{
		"kind":            {put("Y", "prod"), "provider.kind"},
		"no cluster":      {put("fake", ""), "provider.cluster"},
		"cluster":         {put("fake", "a:b", "address", "here"), "provider.cluster"},
		"missing setting": {put("fake", "prod"), "provider.settings[address]"},
		"unknown setting": {put("fake", "prod", "address", "a", "addresses", "b"), "provider.settings[addresses]"},
		"pace":            {put("fake", "prod", "address", "a", "interval", "1s"), "provider.settings[interval]"},
		"file elsewhere":  {put("fake", "prod", "address", "a", "secretFile", outside), "provider.settings[secretFile]"},
		"file above":      {put("fake", "prod", "address", "a", "secretFile", secrets+"/../outside"), "provider.settings[secretFile]"},
		"relative above":  {put("fake", "prod", "address", "a", "secretFile", "../outside"), "provider.settings[secretFile]"},
		"the directory":   {put("fake", "prod", "address", "a", "secretFile", secrets), "provider.settings[secretFile]"},
		"one like it":     {put("fake", "prod", "address", "a", "secretFile", secrets+"2/x"), "provider.settings[secretFile]"},
		"no file's name":  {put("fake", "prod", "address", "a", "secretFile", ""), "provider.settings[secretFile]"},
	} {
		if connect.CodeOf(c.err) != connect.CodeInvalidArgument || fieldOf(c.err) != c.field {
			t.Errorf("%s: field %q in %v, want %s", name, fieldOf(c.err), c.err, c.field)
		}
	}
	// A link in the directory does not lead out of it.
	if err := os.Symlink(outside, filepath.Join(secrets, "link")); err != nil {
		t.Fatal(err)
	}
	if err := put("fake", "prod", "address", "here", "secretFile", "link"); err != nil {
		t.Fatal(err)
	}
	eventually(t, "the link is refused", func() bool {
		return strings.Contains(f.providers()["prod"].GetHealth().GetMessage(), "no link out of it")
	})
	if n := len(kind.Cluster("here").Times()); n != 0 {
		t.Errorf("it was read %d times", n)
	}
	writeFile(t, filepath.Join(secrets, "password"), "secret")
	if err := put("fake", "prod", "address", "here", "secretFile", "password"); err != nil {
		t.Fatal(err)
	}
	f.read("prod")
	if got := kind.OpenedWith()["secretFile"]; got != filepath.Join(secrets, "password") {
		t.Errorf("opened with %s", got)
	}
}

func TestACheckChangesNothing(t *testing.T) {
	f, here := queueOf(t, Config{}, nil)
	check := func(p *bursarv1.Provider) (*bursarv1.CheckProviderResponse, error) {
		return f.queues.CheckProvider(t.Context(), &bursarv1.CheckProviderRequest{Provider: p})
	}
	for _, p := range []*bursarv1.Provider{
		{Kind: "fake", Cluster: "prod"}, // the one that is configured
		{Kind: "fake", Cluster: "new", Settings: map[string]string{"address": "here"}},
	} {
		res, err := check(p)
		if err != nil {
			t.Fatal(err)
		}
		h := res.GetProvider().GetHealth()
		if h.GetState() != bursarv1.ProviderHealth_STATE_KNOWN || h.GetServer() != "rm1" || h.GetQueues() != 3 || h.GetMessage() != "" {
			t.Errorf("%v", h)
		}
		if q := res.GetQueues(); len(q) != 3 || q[1].GetCluster() != p.GetCluster() || q[1].GetPath() != "root.a" || q[1].GetAccount().GetLimit().GetMemoryBytes() != 4*gib {
			t.Errorf("%v", q)
		}
		if s := res.GetServers(); len(s) != 2 || s[0].GetRole() != "active" || s[1].GetError() != "refused" {
			t.Errorf("%v", s)
		}
	}
	here.With(func(c *fakecluster.Cluster) {
		c.Err = &providers.UnavailableError{NoneActive: true, Err: errors.New("standby")}
	})
	res, err := check(&bursarv1.Provider{Kind: "fake", Cluster: "new", Settings: map[string]string{"address": "here"}})
	if err != nil || res.GetProvider().GetHealth().GetMessage() != "no active server: standby" || res.GetProvider().GetHealth().GetState() != bursarv1.ProviderHealth_STATE_UNKNOWN {
		t.Errorf("%v, %v", res, err)
	}
	here.With(func(c *fakecluster.Cluster) { c.Panics = "ouch" })
	if res, err = check(&bursarv1.Provider{Kind: "fake", Cluster: "prod"}); err != nil || !strings.Contains(res.GetProvider().GetHealth().GetMessage(), "ouch") {
		t.Errorf("%v, %v", res, err)
	}
	if _, err := check(&bursarv1.Provider{Kind: "fake", Cluster: "unheard-of"}); connect.CodeOf(err) != connect.CodeNotFound {
		t.Errorf("got %v", err)
	}
	if _, err := check(&bursarv1.Provider{Kind: "fake", Cluster: "new", Settings: map[string]string{"interval": "2s"}}); fieldOf(err) != "provider.settings[address]" {
		t.Errorf("got %v", err)
	}
	if list := f.providers(); len(list) != 1 {
		t.Errorf("there are %v", list)
	}
	eventually(t, "one provider is open", func() bool { return here.Kind.ProvidersOpen() == 1 })
}

// A check calls an address that the caller names, with our credentials. A page of another site can
// make a browser send a GET, but nothing else.
func TestAPageOfAnotherSiteHasNoClusterChecked(t *testing.T) {
	f, here := queueOf(t, Config{}, nil)
	message := url.QueryEscape(`{"provider":{"kind":"fake","cluster":"new","settings":{"address":"there"}}}`)
	code, text := f.fetch(http.MethodGet, "/bursar.v1.QueueService/CheckProvider?connect=v1&encoding=json&message="+message, "", "Origin", "http://elsewhere.example")
	if code == http.StatusOK || len(here.Kind.Cluster("there").Times()) != 0 {
		t.Errorf("%d %s", code, text)
	}
}

func TestProvidersAreAdministered(t *testing.T) {
	c := newAuthServer(t, func(config *Config) { config.ProviderCredentials = "/no/such/directory" })
	c.server.pollers.Kinds = providers.Kinds{fakecluster.New()}
	root, ctx := c.visit(t, "root"), t.Context()
	p := &bursarv1.Provider{Kind: "fake", Cluster: "prod", Default: true, Settings: map[string]string{"address": "here", "secretFile": "password"}}
	for _, err := range []error{
		second(root.queues.PutProvider(ctx, &bursarv1.PutProviderRequest{Provider: p})),
		second(root.queues.CheckProvider(ctx, &bursarv1.CheckProviderRequest{Provider: &bursarv1.Provider{Kind: "fake", Cluster: "prod"}})),
		second(root.queues.DeleteProvider(ctx, &bursarv1.DeleteProviderRequest{Kind: "fake", Cluster: "prod"})),
		second(root.queues.PutProvider(ctx, &bursarv1.PutProviderRequest{Provider: &bursarv1.Provider{
			Kind: "fake", Cluster: "prod", Settings: map[string]string{"address": "http://me:s3cr3t@rm1:8088,http://me:s3/cr@t@rm2"},
		}})),
		second(c.visit(t, "reader").queues.ListProviders(ctx, &bursarv1.ListProvidersRequest{})),
		second(c.visit(t, "alice").queues.List(ctx, &bursarv1.QueueServiceListRequest{})),
	} {
		if err != nil {
			t.Error(err)
		}
	}
	for _, member := range []string{"reader", "alice", "ops", "agent1"} {
		v := c.visit(t, member)
		_, err := v.queues.PutProvider(ctx, &bursarv1.PutProviderRequest{Provider: p})
		expect(t, member+" puts", err, connect.CodePermissionDenied, "")
		_, err = v.queues.CheckProvider(ctx, &bursarv1.CheckProviderRequest{Provider: p})
		expect(t, member+" checks", err, connect.CodePermissionDenied, "")
	}
	c.stop()
	var targets []string
	for _, r := range c.records(t) {
		if r.Actor == "root" {
			targets = append(targets, r.Target+" "+r.Code)
		}
	}
	want := []string{`provider fake:prod (default) address="here" secretFile="password" ok`, "provider fake:prod ok", "provider fake:prod ok", `provider fake:prod address="http://…@rm1:8088,http://…@rm2" ok`}
	if diff := cmp.Diff(want, targets); diff != "" {
		t.Error(diff)
	}
}
