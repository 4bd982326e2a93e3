package coordinator

import (
	"testing"

	"connectrpc.com/connect"
	"github.com/google/go-cmp/cmp"

	bursarv1 "github.com/bursar/bursar/proto/bursar/v1"
)

func TestImportedRulesAreChangedByTheirImportOnly(t *testing.T) {
	f := start(t, Config{}, nil)
	ctx := t.Context()
	apply := func(source string, prune bool, set ...*bursarv1.Quota) error {
		_, err := f.quotas.Apply(ctx, &bursarv1.ApplyRequest{Quotas: set, Source: source, Prune: prune})
		return err
	}
	f.put(userQuota("carol", 30))
	if err := apply("import:linkis", true, userQuota("alice", 10), userQuota("bob", 20)); err != nil {
		t.Fatal(err)
	}
	before := []string{"user=alice import:linkis 10Mi", "user=bob import:linkis 20Mi", "user=carol api 30Mi"}

	_, put := f.quotas.Put(ctx, &bursarv1.PutRequest{Quota: userQuota("alice", 99)})
	_, deleted := f.quotas.Delete(ctx, &bursarv1.DeleteRequest{Selector: userQuota("bob", 0).GetSelector()})
	for _, test := range []struct {
		what string
		err  error
		code connect.Code
	}{
		{"a Put of an imported rule", put, connect.CodeInvalidArgument},
		{"a Delete of an imported rule", deleted, connect.CodeFailedPrecondition},
		{"another set", apply("team", false, userQuota("dave", 1), userQuota("bob", 99)), connect.CodeInvalidArgument},
		{"another import", apply("import:other", false, userQuota("bob", 99)), connect.CodeInvalidArgument},
		{"an import without a name", apply("import:", false, userQuota("dave", 1)), connect.CodeInvalidArgument},
		{"an import by a name that looks like another", apply("import:linkis\u202e", true), connect.CodeInvalidArgument},
		{"an import of a rule that is set here", apply("import:linkis", false, userQuota("carol", 99)), connect.CodeInvalidArgument},
	} {
		if got := connect.CodeOf(test.err); test.err == nil || got != test.code {
			t.Errorf("%s: %v, want %v", test.what, test.err, test.code)
		}
	}
	if diff := cmp.Diff(before, f.rules()); diff != "" {
		t.Error(diff)
	}

	if err := apply("import:linkis", true, userQuota("alice", 11)); err != nil {
		t.Error(err)
	}
	if diff := cmp.Diff([]string{"user=alice import:linkis 11Mi", "user=carol api 30Mi"}, f.rules()); diff != "" {
		t.Error(diff)
	}
	if err := apply("import:linkis", true); err != nil {
		t.Error(err)
	}
	if diff := cmp.Diff([]string{"user=carol api 30Mi"}, f.rules()); diff != "" {
		t.Error(diff)
	}
	f.audited()
}
