package coordinator

import (
	"slices"
	"testing"

	"connectrpc.com/connect"

	"github.com/bursar/bursar/internal/identity"
	bursarv1 "github.com/bursar/bursar/proto/bursar/v1"
)

// Mine are those with the label of the one user that the caller acts as, letter by letter.
func TestMineAreThoseOfTheCallersUser(t *testing.T) {
	c := newAuthServer(t)
	c.addHosts(t)
	root := c.visit(t, "root")
	through := func(user string) *visitor {
		return c.visit(t, "agent1", identity.Actor{Name: user + "@h1", Users: []string{user}, Role: identity.Submitter, Host: "h1"})
	}
	ids := make(map[string]string)
	for _, user := range []string{"alice", "alice@h1", "Alice", "bob"} {
		ids[user] = root.mustAllocate(t, "h1", user)
	}
	for name, call := range map[string]struct {
		by     *visitor
		labels map[string]string
		want   []string // users
	}{
		"with a token":             {c.visit(t, "alice"), nil, []string{"alice"}},
		"through an agent":         {through("alice"), nil, []string{"alice"}},
		"a name with a host in it": {through("alice@h1"), nil, []string{"alice@h1"}},
		"and any user":             {c.visit(t, "alice"), map[string]string{"user": "*"}, []string{"alice"}},
		"who is nobody":            {root, nil, nil},
		"who has none":             {through("zoe"), nil, nil},
	} {
		res, err := call.by.allocations.List(t.Context(), &bursarv1.AllocationServiceListRequest{Mine: true, Labels: call.labels})
		if err != nil {
			t.Errorf("%s: %v", name, err)
			continue
		}
		var got []string
		for _, a := range res.GetAllocations() {
			got = append(got, a.GetLabels()["user"])
		}
		if !slices.Equal(got, call.want) {
			t.Errorf("%s: those of %q, want %q", name, got, call.want)
		}
		if name != "who is nobody" && name != "who has none" && !slices.Equal(res.GetUsers(), call.want) {
			t.Errorf("%s: it says that they are %q's", name, res.GetUsers())
		}
	}
	_, err := c.visit(t, "alice").allocations.List(t.Context(), &bursarv1.AllocationServiceListRequest{Mine: true, Labels: map[string]string{"user": "bob"}})
	expect(t, "another's are not mine", err, connect.CodeInvalidArgument, "labels[user]")
	several := c.visit(t, "agent1", identity.Actor{Name: "both@h1", Users: []string{"bob", "alice"}, Role: identity.Submitter, Host: "h1"})
	_, err = several.allocations.List(t.Context(), &bursarv1.AllocationServiceListRequest{Mine: true})
	expect(t, "several users", err, connect.CodeInvalidArgument, "the caller acts as alice, bob")
}
