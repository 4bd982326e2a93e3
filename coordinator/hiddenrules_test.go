package coordinator

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/bursar/bursar/coordinator/core"
	"github.com/bursar/bursar/coordinator/ledger"
	"github.com/bursar/bursar/coordinator/store/storetest"
	"github.com/bursar/bursar/label"
	bursarv1 "github.com/bursar/bursar/proto/bursar/v1"
)

// TestAQuotaFileHidesTheStoredRule: a rule that somebody has put over the API does not keep a
// coordinator from leading whose file has one for the same selector, or one that ties with it.
func TestAQuotaFileHidesTheStoredRule(t *testing.T) {
	disk := storetest.NewMemory("test")
	put := func(f *fixture, selector map[string]string, bytes int64) error {
		_, err := f.quotas.Put(t.Context(), &bursarv1.PutRequest{Quota: &bursarv1.Quota{Selector: selector, Limit: memory(bytes)}})
		return err
	}
	alice := map[string]string{"user": "alice"}
	f := start(t, Config{}, disk.Open())
	for selector, bytes := range map[string]int64{"alice": 8 << 30, "carol": 3 << 30} {
		if err := put(f, map[string]string{"user": selector}, bytes); err != nil {
			t.Fatal(err)
		}
	}
	f.stop()

	path := filepath.Join(t.TempDir(), "quotas.yaml")
	if err := os.WriteFile(path, []byte("quotas:\n- selector: {user: alice}\n  limit: {memory: 2GiB}\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	f = start(t, Config{QuotaFiles: []string{path}}, disk.Open())
	list, err := f.quotas.List(t.Context(), &bursarv1.QuotaServiceListRequest{})
	if err != nil {
		t.Fatal(err)
	}
	var shown []string
	for _, q := range list.GetQuotas() {
		text := q.GetSelector()["user"] + " " + strings.TrimSuffix(q.GetSource(), path)
		if q.GetHidden() != "" {
			text += " hidden"
		}
		shown = append(shown, text)
	}
	if got := strings.Join(shown, ", "); got != "alice file:, alice api hidden, carol api" {
		t.Errorf("rules: %s", got)
	}
	res, err := f.quotas.Get(t.Context(), &bursarv1.QuotaServiceGetRequest{Selector: alice})
	if err != nil || res.GetQuota().GetLimit().GetMemoryBytes() != 2<<30 || res.GetQuota().GetHidden() != "" {
		t.Errorf("the rule for alice is %v, %v; want that of the file", res.GetQuota(), err)
	}
	eventually(t, "status says what is hidden", func() bool {
		return strings.Contains(strings.Join(f.status().GetWarnings(), "\n"), "quota user=alice of api is not in force")
	})
	if err := put(f, alice, 1<<30); err == nil || !strings.Contains(err.Error(), "a selector that has no rule of file:") {
		t.Errorf("a rule that a file has is put: %v", err)
	}
	if _, err := f.quotas.Delete(t.Context(), &bursarv1.DeleteRequest{Selector: alice}); err != nil {
		t.Error(err)
	}
	eventually(t, "status is clear", func() bool {
		return !strings.Contains(strings.Join(f.status().GetWarnings(), "\n"), "not in force")
	})
	f.audited()
}

// TestFilesThatTieAreRefusedWhereNobodyLeads: a standby does not take over rules that it could not
// lead with later.
func TestFilesThatTieAreRefusedWhereNobodyLeads(t *testing.T) {
	s, err := New(Config{}, Dependencies{Store: newMemoryStore()})
	if err != nil {
		t.Fatal(err)
	}
	q := s.files
	rule := func(text string) ledger.Quota {
		selector, err := label.ParseSelector(text)
		if err != nil {
			t.Fatal(err)
		}
		return ledger.Quota{Selector: selector}
	}
	one := map[string][]ledger.Quota{"file:1": {rule("user=a,creator=*")}}
	if err := q.setFiles(t.Context(), s.loop, one); !errors.Is(err, core.ErrNotLeading) {
		t.Fatalf("%v; want no complaint but that it does not lead", err)
	}
	q.setLatest(one)
	err = q.setFiles(t.Context(), s.loop, map[string][]ledger.Quota{"file:2": {rule("user=*,creator=x")}})
	if _, wrong := errors.AsType[*ledger.FieldError](err); !wrong {
		t.Errorf("rules that tie: %v; want a *ledger.FieldError", err)
	}
}

// TestAQuotaFileThatHardlyMeansWhatItSays is in force as it is, and warned of.
func TestAQuotaFileThatHardlyMeansWhatItSays(t *testing.T) {
	path := filepath.Join(t.TempDir(), "quotas.yaml")
	text := "quotas:\n- selector: {user: alice}\n  limit: {external: [{kind: yarn, memory: 200, vcores: 100}]}\n"
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	f := start(t, Config{QuotaFiles: []string{path}}, storetest.NewMemory("test").Open())
	res, err := f.quotas.Get(t.Context(), &bursarv1.QuotaServiceGetRequest{Selector: map[string]string{"user": "alice"}})
	if err != nil || len(res.GetQuota().GetLimit().GetExternal()) != 1 {
		t.Errorf("the rule is %v, %v", res.GetQuota(), err)
	}
	warnings := strings.Join(f.status().GetWarnings(), "\n")
	for _, want := range []string{path + `:3:43: quotas[0].limit.external[0].memory: "200": want a size with its unit`, "did you mean cpu?"} {
		if !strings.Contains(warnings, want) {
			t.Errorf("want %q in %s", want, warnings)
		}
	}
}
