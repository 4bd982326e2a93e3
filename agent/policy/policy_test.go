package policy_test

import (
	"math"
	"math/big"
	"testing"

	"pgregory.net/rapid"

	"github.com/bursar/bursar/agent/policy"
	"github.com/bursar/bursar/label"
)

func TestFirstPolicyThatMatchesCounts(t *testing.T) {
	of := func(text string, action policy.Action) policy.Policy {
		match, err := label.ParseSelector(text)
		if err != nil {
			t.Fatal(err)
		}
		return policy.Policy{Match: match, Action: action}
	}
	set := policy.Set{
		of("engineType=spark,user=alice", policy.Observe),
		of("engineType=spark", policy.Kill),
		of("tenant=*,user=bob", policy.Limit),
	}
	for _, test := range []struct {
		labels map[string]string
		want   policy.Action
	}{
		{map[string]string{"engineType": "spark", "user": "alice"}, policy.Observe},
		{map[string]string{"engineType": "spark", "user": "bob"}, policy.Kill},
		// "*" matches a missing label, as in a quota
		{map[string]string{"user": "bob"}, policy.Limit},
		{map[string]string{"engineType": "python", "user": "alice"}, policy.Warn},
		{nil, policy.Warn},
		{map[string]string{"": "spark"}, policy.Warn},
	} {
		if got := set.For(test.labels); got.Action != test.want {
			t.Errorf("%v: %s, want %s", test.labels, got.Action, test.want)
		}
	}
	if got := append(set, of("*", policy.Observe)).For(nil); got.Action != policy.Observe {
		t.Errorf("a policy for everything: %s", got.Action)
	}
	if got := policy.Set(nil).For(nil); got.Action != policy.Warn || got.Tolerance != 100 || got.Cgroup != policy.CgroupIfFree {
		t.Errorf("without policies: %+v", got)
	}
}

func TestActionsAreReadAsTheyAreWritten(t *testing.T) {
	for _, action := range policy.Actions() {
		if got, err := policy.ParseAction(action.String()); err != nil || got != action {
			t.Errorf("%s: %v, %v", action, got, err)
		}
	}
	for _, wrong := range []string{"", "Kill", "action 0"} {
		if got, err := policy.ParseAction(wrong); err == nil {
			t.Errorf("%q: %v", wrong, got)
		}
	}
}

func TestBoundIsTheEntitlementAndTheTolerance(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		entitled := rapid.Int64Range(0, math.MaxInt64).Draw(t, "entitled")
		tolerance := rapid.Int64Range(0, 10_000).Draw(t, "tolerance")
		want := new(big.Int).Mul(big.NewInt(entitled), big.NewInt(1000+tolerance))
		want.Div(want, big.NewInt(1000))
		if !want.IsInt64() {
			want.SetInt64(math.MaxInt64)
		}
		if got := (policy.Policy{Tolerance: tolerance}).Bound(entitled); got != want.Int64() {
			t.Fatalf("%d, want %s", got, want)
		}
	})
}
