package resource_test

import (
	"errors"
	"testing"

	"github.com/bursar/bursar/resource"
)

func TestALimitCoversPartsByKindClusterAndPath(t *testing.T) {
	for _, test := range []struct {
		limit, part string
		want        bool
	}{
		{"yarn:*:*", "yarn:prod:root.a", true},
		{"yarn:*:*", "yarn:prod:root.a@gpu", true},
		{"yarn:*:*", "exec:prod:root.a", false},
		{"yarn:prod:*", "yarn:prod:root.a", true},
		{"yarn:prod:*", "yarn:test:root.a", false},
		{"yarn:*:root.a", "yarn:prod:root.a", true},
		{"yarn:*:root.a", "yarn:prod:root.a@gpu", true},
		{"yarn:*:root.a", "yarn:prod:root.a.x", true},
		{"yarn:*:root.a", "yarn:prod:root.ab", false},
		{"yarn:*:root.a", "yarn:prod:root", false},
		{"yarn:test:root.a", "yarn:prod:root.a", false},
	} {
		limit, part := address(t, test.limit), address(t, test.part)
		if got := limit.Covers(part); got != test.want {
			t.Errorf("%s covers %s: %t", test.limit, test.part, got)
		}
	}
}

func address(t *testing.T, text string) resource.Address {
	t.Helper()
	e, err := resource.ParseExternal(text + ",memory=1")
	if err != nil {
		t.Fatal(err)
	}
	return e.Address
}

func TestALimitWithoutAClusterIsForEveryOne(t *testing.T) {
	limits := resource.NewLimits(part(t, "yarn:prod:root.a,cpu=1"), part(t, "yarn::*,memory=4GiB"))
	if err := resource.ValidateLimits(limits); err != nil {
		t.Fatal(err)
	}
	if got := (resource.Resource{External: limits}).String(); got != "yarn:*:*,memory=4GiB yarn:prod:root.a,cpu=1" {
		t.Error(got)
	}
}

func part(t *testing.T, text string) resource.External {
	t.Helper()
	e, err := resource.ParseExternal(text)
	if err != nil {
		t.Fatal(err)
	}
	return e
}

func TestWrongLimitsOfExternalPartsAreRefused(t *testing.T) {
	for name, test := range map[string]struct {
		limits []resource.External
		field  string
	}{
		"a partition":         {resource.NewLimits(part(t, "yarn:*:root.a@gpu,cpu=1")), "external[yarn:*:root.a@gpu].partition"},
		"a part of a cluster": {resource.NewLimits(part(t, "yarn:p*:root,cpu=1")), "external[yarn:p*:root].cluster"},
		"no cluster":          {[]resource.External{part(t, "yarn::root,cpu=1")}, "external[yarn::root].cluster"},
		"nothing limited":     {resource.NewLimits(part(t, "yarn:*:root,none")), "external[yarn:*:root]"},
		"twice":               {resource.NewLimits(part(t, "yarn::root,cpu=1"), part(t, "yarn:*:root,cpu=2")), "external[yarn:*:root]"},
		"a quantity out of range": {resource.NewLimits(resource.External{
			Address: resource.Address{Kind: "yarn", Path: "root"}, Vector: resource.Vector{}.WithCPU(-1),
		}), "external[yarn:*:root].cpu"},
	} {
		wrong, is := errors.AsType[*resource.FieldError](resource.ValidateLimits(test.limits))
		if !is || wrong.Field != test.field {
			t.Errorf("%s: %v; want an error of %s", name, wrong, test.field)
		}
	}
}
