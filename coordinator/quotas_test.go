package coordinator

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"connectrpc.com/connect"
	"github.com/google/go-cmp/cmp"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/testing/protocmp"

	"github.com/bursar/bursar/coordinator/commit"
	"github.com/bursar/bursar/coordinator/ledger"
	"github.com/bursar/bursar/coordinator/wire"
	"github.com/bursar/bursar/label"
	bursarv1 "github.com/bursar/bursar/proto/bursar/v1"
	"github.com/bursar/bursar/resource"
)

func (f *fixture) put(q *bursarv1.Quota) {
	f.tb.Helper()
	if _, err := f.quotas.Put(f.tb.Context(), &bursarv1.PutRequest{Quota: q}); err != nil {
		f.tb.Fatal(err)
	}
}

// rules are "selector source limit" of every rule, in the order of the list.
func (f *fixture) rules() []string {
	f.tb.Helper()
	res, err := f.quotas.List(f.tb.Context(), &bursarv1.QuotaServiceListRequest{})
	if err != nil {
		f.tb.Fatal(err)
	}
	var list []string
	for _, q := range res.GetQuotas() {
		source := q.GetSource()
		if i := strings.LastIndexByte(source, '/'); i >= 0 {
			source = "file:" + source[i+1:]
		}
		list = append(list, fmt.Sprintf("user=%s %s %dMi", q.GetSelector()["user"], source, q.GetLimit().GetMemoryBytes()/mib))
	}
	return list
}

func userQuota(user string, limit int64) *bursarv1.Quota {
	return &bursarv1.Quota{Selector: map[string]string{"user": user}, Limit: memory(limit * mib)}
}

func TestRulesOverTheAPI(t *testing.T) {
	path := filepath.Join(t.TempDir(), "ledger.db")
	f := start(t, Config{}, openSQLite(t, path))
	ctx := t.Context()
	f.host("h1", gib)
	f.put(userQuota("*", 100))
	f.put(userQuota("alice", 50))
	f.put(userQuota("alice", 60))
	f.allocate(request("a", 30*mib))
	got, err := f.quotas.Get(ctx, &bursarv1.QuotaServiceGetRequest{Selector: map[string]string{"user": "alice"}})
	if err != nil || len(got.GetAccounts()) != 1 || got.GetAccounts()[0].GetReserved().GetMemoryBytes() != 30*mib || got.GetQuota().GetSource() != "api" {
		t.Errorf("got %v, %v", got, err)
	}
	star, err := f.quotas.Get(ctx, &bursarv1.QuotaServiceGetRequest{Selector: map[string]string{"user": "*"}})
	if err != nil || len(star.GetAccounts()) != 0 {
		t.Errorf("alice has a rule of her own, and yet: %v, %v", star, err)
	}

	set := []*bursarv1.Quota{userQuota("bob", 10), userQuota("alice", 70), userQuota("*", 100)}
	dry, err := f.quotas.Apply(ctx, &bursarv1.ApplyRequest{Quotas: set, Source: "team", DryRun: true})
	if err != nil || len(dry.GetAdded()) != 1 || len(dry.GetChanged()) != 2 || len(f.rules()) != 2 {
		t.Errorf("dry run: %v, %v; rules %v", dry, err, f.rules())
	}
	if _, err := f.quotas.Apply(ctx, &bursarv1.ApplyRequest{Quotas: set, Source: "team"}); err != nil {
		t.Error(err)
	}
	res, err := f.quotas.Apply(ctx, &bursarv1.ApplyRequest{Quotas: set[:2], Source: "team", Prune: true})
	if err != nil || res.GetUnchanged() != 2 || len(res.GetDeleted()) != 1 {
		t.Errorf("pruned: %v, %v", res, err)
	}
	want := []string{"user=alice team 70Mi", "user=bob team 10Mi"}
	if diff := cmp.Diff(want, f.rules()); diff != "" {
		t.Error(diff)
	}
	f.stop()

	f = start(t, Config{}, openSQLite(t, path))
	if diff := cmp.Diff(want, f.rules()); diff != "" {
		t.Errorf("after a restart: %s", diff)
	}
	if _, err := f.quotas.Delete(ctx, &bursarv1.DeleteRequest{Selector: map[string]string{"user": "bob"}}); err != nil {
		t.Error(err)
	}
	if diff := cmp.Diff(want[:1], f.rules()); diff != "" {
		t.Error(diff)
	}
	f.audited()
}

func TestARuleKeepsAllItSays(t *testing.T) {
	f := start(t, Config{}, nil)
	want := &bursarv1.Quota{
		Selector: map[string]string{"user": "alice", "creator": "*"}, Limit: memory(gib), Guaranteed: memory(mib), Weight: 7, Source: "api",
		Normalization: &bursarv1.Normalization{Minimum: memory(64 * mib), Increment: memory(32 * mib), Maximum: memory(512 * mib)},
	}
	f.put(want)
	got, err := f.quotas.Get(t.Context(), &bursarv1.QuotaServiceGetRequest{Selector: want.GetSelector()})
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(want, got.GetQuota(), protocmp.Transform(), protocmp.IgnoreFields(want, "etag")); diff != "" {
		t.Error(diff)
	}
	f.host("h1", gib)
	if a := f.allocate(request("", 70*mib)); a.GetRequested().GetMemoryBytes() != 70*mib || a.GetEntitled().GetMemoryBytes() != 96*mib {
		t.Errorf("asked for %v, normalized to %v", a.GetRequested(), a.GetEntitled())
	}
	_, err = f.allocations.Allocate(t.Context(), request("", 600*mib))
	if connect.CodeOf(err) != connect.CodeInvalidArgument {
		t.Errorf("more than the maximum: %v", err)
	}
}

func TestAccountsArePagedAndFiltered(t *testing.T) {
	f := start(t, Config{}, nil)
	f.host("h1", gib)
	f.put(userQuota("*", 100))
	for i := range 23 {
		req := request("", mib)
		req.Labels["user"] = fmt.Sprint("u", i)
		f.allocate(req)
	}
	seen := make(map[string]bool)
	req := &bursarv1.QuotaServiceListRequest{PageSize: 5}
	for page := 0; ; page++ {
		res, err := f.quotas.List(t.Context(), req)
		if err != nil {
			t.Fatal(err)
		}
		if (len(res.GetQuotas()) == 1) != (page == 0) {
			t.Errorf("page %d shows %d rules", page, len(res.GetQuotas()))
		}
		for _, a := range res.GetAccounts() {
			seen[a.GetName().GetLabels()["user"]] = true
		}
		if req.PageToken = res.GetNextPageToken(); req.PageToken == "" {
			break
		}
	}
	if len(seen) != 23 {
		t.Errorf("%d accounts in all: want 23", len(seen))
	}
	res, err := f.quotas.List(t.Context(), &bursarv1.QuotaServiceListRequest{Labels: map[string]string{"user": "u7"}})
	if err != nil || len(res.GetAccounts()) != 1 {
		t.Errorf("of one user: %v, %v", res, err)
	}
}

// Rules come before the accounts, as far as a page goes in bytes: a page has both if both fit.
func TestAPageOfRulesEndsWhereItIsLarge(t *testing.T) {
	f := start(t, Config{}, nil)
	f.host("h1", gib)
	const n = 1500 // 6 MB
	var quotas []ledger.Quota
	for i := range n {
		labels := map[string]string{"user": fmt.Sprintf("u%04d", i)}
		for j := range 15 {
			labels[fmt.Sprintf("key%02d", j)] = strings.Repeat("v", 250)
		}
		selector, err := label.NewSelector(labels)
		if err != nil {
			t.Fatal(err)
		}
		quotas = append(quotas, ledger.Quota{Selector: selector, Limit: resource.Vector{}.WithMemory(gib)})
	}
	_, err := commit.Decide(t.Context(), f.server.loop, func(l *ledger.Ledger, now ledger.Instant) (ledger.QuotaChanges, error) {
		return l.ApplyQuotas(now, ledger.QuotaSet{Source: "test", Quotas: quotas})
	})
	if err != nil {
		t.Fatal(err)
	}
	f.put(userQuota("*", 100))
	f.allocate(request("", mib))
	var seen []string
	pages, both, accounts := 0, 0, 0
	req := &bursarv1.QuotaServiceListRequest{PageSize: 1000}
	for ended := false; !ended; ended = req.PageToken == "" {
		page, err := f.quotas.List(t.Context(), req)
		if err != nil {
			t.Fatal(err)
		}
		req.PageToken = page.GetNextPageToken()
		if size := proto.Size(page); size > wire.PageMost {
			t.Fatalf("page %d has %d bytes", pages, size)
		}
		pages++
		for _, q := range page.GetQuotas() {
			if seen = append(seen, q.GetSelector()["user"]); accounts > 0 {
				t.Error("a rule comes after accounts")
			}
		}
		accounts += len(page.GetAccounts())
		if len(page.GetQuotas()) > 0 && len(page.GetAccounts()) > 0 {
			both++
		}
	}
	slices.Sort(seen)
	if len(seen) != n+1 || len(slices.Compact(seen)) != n+1 || pages < 2 || both != 1 || accounts != n+1 {
		t.Errorf("%d rules and %d accounts on %d pages, of which %d have both", len(seen), accounts, pages, both)
	}
}

// A rule and those that it hides have one selector, and a page cannot begin between them.
func TestAPageOfRulesHasAllThatHaveOneSelector(t *testing.T) {
	var all []listedQuota
	for i := range 100 {
		selector, err := label.NewSelector(map[string]string{"user": fmt.Sprintf("u%02d", i/3)})
		if err != nil {
			t.Fatal(err)
		}
		all = append(all, listedQuota{Quota: ledger.Quota{Selector: selector, Source: strings.Repeat("s", wire.PageBytes/10)}, hidden: "hidden"})
	}
	seen, place := 0, ""
	for seen < len(all) {
		var list []*bursarv1.Quota
		list, _, place = rulePage(all, place)
		if seen += len(list); len(list)%3 != 0 && seen < len(all) {
			t.Fatalf("a page has %d rules: they come by three", len(list))
		}
		if (place == "") != (seen == len(all)) {
			t.Fatalf("after %d rules the next page begins after %q", seen, place)
		}
	}
}

func writeFile(t *testing.T, name, text string) {
	t.Helper()
	// In one step, as an editor does: a reader in between must not see half of it.
	if err := os.WriteFile(name+".new", []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := os.Rename(name+".new", name); err != nil {
		t.Fatal(err)
	}
}

func quotaFile1(user, limit string) string {
	return fmt.Sprintf("quotas:\n  - selector: {user: %s}\n    limit: {memory: %s}\n", user, limit)
}

func TestQuotaFilesAreFollowed(t *testing.T) {
	dir := t.TempDir()
	one, two := filepath.Join(dir, "one.yaml"), filepath.Join(dir, "two.yaml")
	writeFile(t, one, quotaFile1("alice", "10MiB"))
	writeFile(t, two, quotaFile1("bob", "20MiB"))
	f := start(t, Config{QuotaFiles: []string{one, two}, QuotaPoll: 5 * time.Millisecond}, nil)
	expect := func(rules ...string) {
		t.Helper()
		eventually(t, strings.Join(rules, ", "), func() bool { return cmp.Equal(rules, f.rules()) })
	}
	expect("user=alice file:one.yaml 10Mi", "user=bob file:two.yaml 20Mi")

	writeFile(t, one, quotaFile1("alice", "11MiB"))
	expect("user=alice file:one.yaml 11Mi", "user=bob file:two.yaml 20Mi")

	// A file that cannot be read changes nothing, and the error says which line is wrong.
	writeFile(t, one, "quotas:\n  - selector: {user: alice}\n    limit: {memory: much}\n")
	eventually(t, "a warning", func() bool { return len(f.status().GetWarnings()) == 1 })
	if w := f.status().GetWarnings()[0]; !strings.Contains(w, "one.yaml:3") {
		t.Errorf("got %q", w)
	}
	if !strings.Contains(f.metrics(), `bursar_quota_file_wrong{file="`+one+`"} 1`) {
		t.Error("no metric says so")
	}
	expect("user=alice file:one.yaml 11Mi", "user=bob file:two.yaml 20Mi")

	// What is in another file's way neither.
	writeFile(t, one, quotaFile1("bob", "30MiB"))
	eventually(t, "a warning about the tie", func() bool {
		w := f.status().GetWarnings()
		return len(w) == 1 && strings.Contains(w[0], "user=bob") && strings.Contains(w[0], "one.yaml:2")
	})
	expect("user=alice file:one.yaml 11Mi", "user=bob file:two.yaml 20Mi")

	// Until the other file lets it.
	writeFile(t, two, quotaFile1("carol", "20MiB"))
	expect("user=bob file:one.yaml 30Mi", "user=carol file:two.yaml 20Mi")
	eventually(t, "no warning", func() bool { return len(f.status().GetWarnings()) == 0 })

	// A file that is gone leaves its rules.
	if err := os.Remove(two); err != nil {
		t.Fatal(err)
	}
	eventually(t, "a warning", func() bool { return len(f.status().GetWarnings()) == 1 })
	expect("user=bob file:one.yaml 30Mi", "user=carol file:two.yaml 20Mi")

	// A rule of a file is not the API's to change.
	_, err := f.quotas.Put(t.Context(), &bursarv1.PutRequest{Quota: userQuota("bob", 1)})
	if connect.CodeOf(err) != connect.CodeInvalidArgument {
		t.Errorf("put over a file's rule: %v", err)
	}
	_, err = f.quotas.Delete(t.Context(), &bursarv1.DeleteRequest{Selector: map[string]string{"user": "bob"}})
	if connect.CodeOf(err) != connect.CodeFailedPrecondition {
		t.Errorf("delete a file's rule: %v", err)
	}
}

func TestAWrongQuotaFileRefusesTheStart(t *testing.T) {
	dir := t.TempDir()
	one, two := filepath.Join(dir, "one.yaml"), filepath.Join(dir, "two.yaml")
	for name, c := range map[string]struct{ one, two, want string }{
		"malformed": {"quotas: [", quotaFile1("bob", "1GiB"), "one.yaml:1"},
		"a tie":     {quotaFile1("bob", "1GiB"), quotaFile1("bob", "2GiB"), "user=bob"},
	} {
		writeFile(t, one, c.one)
		writeFile(t, two, c.two)
		s, err := New(Config{Listen: "127.0.0.1:0", QuotaFiles: []string{one, two}}, Dependencies{Store: newMemoryStore()})
		if err != nil {
			t.Fatal(err)
		}
		if err := s.Run(t.Context()); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: got %v", name, err)
		}
	}
}

// TestRuleIsPutOnlyAsItWasRead: two callers that change the same rule do not lose one another's
// change, if they say what they have read.
func TestRuleIsPutOnlyAsItWasRead(t *testing.T) {
	f := start(t, Config{}, openSQLite(t, filepath.Join(t.TempDir(), "ledger.db")))
	ctx := t.Context()
	put := func(limit int64, etag *string) (*bursarv1.PutResponse, error) {
		return f.quotas.Put(ctx, &bursarv1.PutRequest{Quota: userQuota("alice", limit), IfEtag: etag})
	}
	none, other := "", "0123456789abcdef"
	if _, err := put(1, &other); connect.CodeOf(err) != connect.CodeAborted || !strings.Contains(err.Error(), "there is no such rule") {
		t.Errorf("a rule that is not there: %v", err)
	}
	first, err := put(10, &none)
	if err != nil || first.GetQuota().GetEtag() == "" {
		t.Fatalf("a new rule: %v, %v", first, err)
	}
	if _, err := put(20, &none); connect.CodeOf(err) != connect.CodeAborted {
		t.Errorf("a new rule that is there: %v", err)
	}
	got, err := f.quotas.Get(ctx, &bursarv1.QuotaServiceGetRequest{Selector: map[string]string{"user": "alice"}})
	if err != nil || got.GetQuota().GetEtag() != first.GetQuota().GetEtag() {
		t.Errorf("read %v, %v; put %v", got, err, first)
	}
	list, err := f.quotas.List(ctx, &bursarv1.QuotaServiceListRequest{})
	if err != nil || list.GetQuotas()[0].GetEtag() != first.GetQuota().GetEtag() {
		t.Errorf("listed %v, %v; put %v", list, err, first)
	}
	etag := first.GetQuota().GetEtag()
	second, err := put(20, &etag)
	if err != nil || second.GetQuota().GetEtag() == etag {
		t.Errorf("changed: %v, %v", second, err)
	}
	if _, err := put(30, &etag); connect.CodeOf(err) != connect.CodeAborted {
		t.Errorf("with an etag that is over: %v", err)
	}
	if rules := f.rules(); !slices.Equal(rules, []string{"user=alice api 20Mi"}) {
		t.Errorf("rules %v", rules)
	}
	// Who says nothing puts it whatever is there, and an etag in the rule itself means nothing.
	rule := userQuota("alice", 40)
	rule.Etag = other
	if _, err := f.quotas.Put(ctx, &bursarv1.PutRequest{Quota: rule}); err != nil {
		t.Error(err)
	}
}
