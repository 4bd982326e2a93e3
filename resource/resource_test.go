package resource

import (
	"errors"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"
)

func queue(path string) Address { return Address{Kind: "yarn", Cluster: "default", Path: path} }

func TestPartsAreMatchedByAddress(t *testing.T) {
	one := Vector{}.WithMemory(1)
	a := NewResource(Vector{}, External{queue("root.b"), one}, External{queue("root.a"), one})
	b := Resource{}.WithPart(queue("root.b"), one).WithPart(queue("root.c"), one)

	sum := must(t, a.Add, b)
	want := Resource{}.WithPart(queue("root.c"), one).WithPart(queue("root.a"), one).WithPart(queue("root.b"), Vector{}.WithMemory(2))
	if !sum.Equal(want) {
		t.Errorf("sum (-want +got):\n%s", cmp.Diff(want, sum))
	}
	if back := must(t, sum.Minus, b); !back.EqualTo(a) {
		t.Errorf("%v - %v = %v", sum, b, back)
	}
	if _, err := a.Minus(b); !errors.Is(err, ErrUnderflow) || !strings.Contains(err.Error(), "root.c") {
		t.Errorf("error %v does not name the queue that is short", err)
	}
	if v, found := sum.Part(queue("root.b")); !found || v.Memory() != 2 {
		t.Errorf("Part = %v, %t", v, found)
	}
	if v, found := sum.Part(queue("root")); found || !v.IsUnset() {
		t.Errorf("Part of a queue that is not there = %v, %t", v, found)
	}
	if replaced := sum.WithPart(queue("root.b"), one); !must(t, sum.Add, Resource{}).Equal(sum) || len(replaced.External) != 3 {
		t.Errorf("WithPart changed its resource, or added a part: %v, %v", sum, replaced)
	}
}

func TestNewResourceLeavesItsPartsInTheirOrder(t *testing.T) {
	parts := []External{{Address: queue("root.b")}, {Address: queue("root.a")}}
	if r := NewResource(Vector{}, parts...); r.External[0].Path != "root.a" || parts[0].Path != "root.b" {
		t.Errorf("from %v came %v", parts, r)
	}
}

func TestResourcesThatDifferBothWaysAreInNoRelation(t *testing.T) {
	here, there := Vector{}.WithMemory(2), Vector{}.WithMemory(1)
	for name, pair := range map[string][2]Resource{
		"two dimensions":   {{Vector: Vector{}.WithMemory(2).WithCPU(1)}, {Vector: Vector{}.WithMemory(1).WithCPU(2)}},
		"here and a queue": {Resource{Vector: here}.WithPart(queue("root.a"), there), Resource{Vector: there}.WithPart(queue("root.a"), here)},
		"two queues":       {Resource{}.WithPart(queue("root.a"), here), Resource{}.WithPart(queue("root.b"), here)},
	} {
		r, s := pair[0], pair[1]
		if r.MoreThan(s) || r.LessThan(s) || r.EqualTo(s) || r.NotLessThan(s) || r.NotMoreThan(s) {
			t.Errorf("%s: %v and %v are comparable", name, r, s)
		}
	}
}

func TestZeroAndUnsetLookAtAllParts(t *testing.T) {
	at := queue("root.a")
	for _, test := range []struct {
		r           Resource
		zero, unset bool
	}{
		{Resource{}, true, true},
		{Resource{}.WithPart(at, Vector{}), true, true},
		{Resource{}.WithPart(at, Vector{}.WithCPU(0)), true, false},
		{Resource{}.WithPart(at, Vector{}.WithCPU(1)), false, false},
		{Resource{Vector: Vector{}.WithCPU(1)}, false, false},
	} {
		if test.r.IsZero() != test.zero || test.r.IsUnset() != test.unset {
			t.Errorf("%v: IsZero %t, IsUnset %t", test.r, test.r.IsZero(), test.r.IsUnset())
		}
	}
}

func TestEqualLooksAtAllParts(t *testing.T) {
	a := Resource{Vector: Vector{}.WithMemory(1)}.WithPart(queue("root.a"), Vector{}.WithCPU(1))
	for name, b := range map[string]Resource{
		"here":           {Vector: Vector{}.WithMemory(2), External: a.External},
		"there":          a.WithPart(queue("root.a"), Vector{}.WithCPU(2)),
		"set, to zero":   a.WithPart(queue("root.a"), Vector{}.WithCPU(1).WithMemory(0)),
		"a part more":    a.WithPart(queue("root.b"), Vector{}),
		"the address":    Resource{Vector: a.Vector}.WithPart(queue("root.b"), Vector{}.WithCPU(1)),
		"no parts there": {Vector: a.Vector},
	} {
		if a.Equal(b) || b.Equal(a) {
			t.Errorf("%v and %v differ in %s", a, b, name)
		}
	}
	if !a.Equal(Resource{Vector: Vector{}.WithMemory(1)}.WithPart(queue("root.a"), Vector{}.WithCPU(1))) {
		t.Error("equal parts are not equal")
	}
}

func TestResourceAlgebraIsThatOfItsParts(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		r, s := resources().Draw(t, "r"), resources().Draw(t, "s")
		sum, reverse := must(t, r.Add, s), must(t, s.Add, r)
		if !sum.Equal(reverse) {
			t.Fatalf("%v and %v", sum, reverse)
		}
		if back := must(t, sum.Minus, s); !back.EqualTo(r) {
			t.Fatalf("%v + %v - %v = %v", r, s, s, back)
		}
		if !sum.NotLessThan(r) || !r.NotMoreThan(sum) {
			t.Fatalf("%v is not within %v", r, sum)
		}
		if sum.MoreThan(r) != !s.IsZero() || r.LessThan(sum) != !s.IsZero() {
			t.Fatalf("%v and %v are out of order", sum, r)
		}
		if r.EqualTo(sum) != s.IsZero() || r.EqualTo(s) != (r.NotLessThan(s) && r.NotMoreThan(s)) {
			t.Fatalf("%v equal to %v: %t, to %v: %t", r, sum, r.EqualTo(sum), s, r.EqualTo(s))
		}
		if twice := must(t, r.Multiply, 2); !twice.EqualTo(must(t, r.Add, r)) || !must(t, twice.Divide, 2).Equal(r) {
			t.Fatalf("%v * 2 = %v", r, twice)
		}
		if err := sum.Vector.Validate(); err == nil && len(sum.External) > 0 {
			for i, e := range sum.External[1:] {
				if sum.External[i].Compare(e.Address) >= 0 {
					t.Fatalf("%v is out of order", sum)
				}
			}
		}
	})
}

func TestResourceFactorsLeaveOtherPartsAlone(t *testing.T) {
	r := Resource{Vector: Vector{}.WithMemory(6)}.WithPart(queue("root.a"), Vector{}.WithCPU(6)).WithPart(queue("root.b"), Vector{}.WithCPU(6))
	s := Resource{Vector: Vector{}.WithMemory(2)}.WithPart(queue("root.a"), Vector{}.WithCPU(3)).WithPart(queue("root.c"), Vector{}.WithCPU(3))
	if got := must(t, r.MultiplyVector, s); got.String() != "memory=12B yarn:default:root.a,cpu=18m yarn:default:root.b,cpu=6m" {
		t.Errorf("product is %v", got)
	}
	if got := must(t, r.DivideVector, s); got.String() != "memory=3B yarn:default:root.a,cpu=2m yarn:default:root.b,cpu=6m" {
		t.Errorf("quotient is %v", got)
	}
}

func TestValidateRefusesMalformedParts(t *testing.T) {
	part := func(a Address) Resource { return Resource{}.WithPart(a, Vector{}.WithCPU(1)) }
	many := Resource{}
	for i := range MaxExternal + 1 {
		many = many.WithPart(queue(string(rune('a'+i))), Vector{})
	}
	twice := External{queue("root.a"), Vector{}}
	for _, test := range []struct {
		name  string
		r     Resource
		field string
	}{
		{"a complete address", part(Address{"yarn", "c", "root.größe", "p"}), ""},
		{"as many as there may be", Resource{External: many.External[:MaxExternal]}, ""},
		{"the longest fields", part(Address{"k" + strings.Repeat("-", 31), strings.Repeat("ö", 128), strings.Repeat("ö", 512), strings.Repeat("ö", 128)}), ""},
		{"a vector that is wrong", Resource{Vector: Vector{}.WithCPU(-1)}, CPU},
		{"no kind", part(Address{Path: "a"}), "external[::a].kind"},
		{"a kind in capitals", part(Address{Kind: "YARN", Path: "a"}), "external[YARN::a].kind"},
		{"a kind of the last letter", part(Address{Kind: "zz", Path: "a"}), ""},
		{"a kind that begins with a digit", part(Address{Kind: "1n", Path: "a"}), "external[1n::a].kind"},
		{"a kind that begins with a brace", part(Address{Kind: "{n", Path: "a"}), "external[{n::a].kind"},
		{"a kind with a space", part(Address{Kind: "y n", Path: "a"}), "external[y n::a].kind"},
		{"no path", part(Address{Kind: "yarn", Cluster: "c"}), "external[yarn:c:].path"},
		{"as many names in a path as there may be", part(queue("a" + strings.Repeat(".a", 31))), ""},
		{"a path with a name more", part(queue("a" + strings.Repeat(".a", 32))), "external[yarn:default:a" + strings.Repeat(".a", 32) + "].path"},
		{"a path with an empty name", part(queue("root..a")), "external[yarn:default:root..a].path"},
		{"a path that begins with a dot", part(queue(".a")), "external[yarn:default:.a].path"},
		{"a path that ends with a dot", part(queue("root.")), "external[yarn:default:root.].path"},
		{"a quantity out of range", Resource{}.WithPart(queue("a"), Vector{}.WithMemory(-1)), "external[yarn:default:a].memory"},
		{"a malformed name", Resource{}.WithPart(Address{"yarn", "", "a", "p"}, Vector{}.With("?", 1)), "external[yarn::a@p].custom"},
		{"an address twice", NewResource(Vector{}, twice, twice), "external[yarn:default:root.a]"},
		{"parts out of order", Resource{External: []External{{Address: queue("b")}, {Address: queue("a")}}}, "external[yarn:default:a]"},
		{"too many parts", many, "external"},
	} {
		t.Run(test.name, func(t *testing.T) { checkField(t, test.r.Validate(), test.field) })
	}
	for _, long := range []Address{
		{"k" + strings.Repeat("k", 32), "", "a", ""},
		{"yarn", strings.Repeat("c", 129), "a", ""},
		{"yarn", "", strings.Repeat("p", 513), ""},
		{"yarn", "", "a", strings.Repeat("p", 129)},
	} {
		var wrong *FieldError
		if err := part(long).Validate(); !errors.As(err, &wrong) {
			t.Errorf("%.20v…: %v", long, err)
		}
	}
}
