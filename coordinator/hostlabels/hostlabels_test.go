package hostlabels_test

import (
	"fmt"
	"strings"
	"testing"
	"unicode"
	"unicode/utf8"

	"pgregory.net/rapid"

	"github.com/bursar/bursar/coordinator/hostlabels"
	"github.com/bursar/bursar/label"
)

func rules(t testing.TB, text string) []label.Rule {
	t.Helper()
	if text == "" {
		return nil
	}
	list, err := label.ParseRules(text)
	if err != nil {
		t.Fatal(err)
	}
	return list
}

func census(hosts ...label.Set) *hostlabels.Census {
	c := &hostlabels.Census{}
	for _, labels := range hosts {
		c.Add(labels)
	}
	return c
}

func TestTheTextNamesTheConditionThatNoHostMeets(t *testing.T) {
	fleet := census(
		label.Of("zone", "b", "cores", "8", "disk", "ssd"),
		label.Of("zone", "c", "cores", "16", "gpu", "1"),
		label.Of("zone", "c", "cores", "16"),
	)
	for _, test := range []struct {
		required    label.Set
		must, never string
		want        string
	}{
		{label.Of("zone", "a"), "", "", "no host meets zone=a (hosts have zone b, c)"},
		{label.Of("zone", "a", "disk", "ssd"), "gpu", "", "no host meets zone=a (hosts have zone b, c)"},
		{nil, "zone in (a,d), disk=ssd", "", "no host meets zone in (a,d) (hosts have zone b, c)"},
		{nil, "zone notin (c,b)", "", "no host meets zone notin (b,c) (hosts have zone b, c)"},
		{nil, "rack", "", "no host meets rack (no host has a label rack, but cores, disk, gpu, zone)"},
		{label.Of("rack", "*"), "", "", "no host meets rack=* (no host has a label rack, but cores, disk, gpu, zone)"},
		{nil, "!zone", "", "no host meets !zone (hosts have zone b, c)"},
		{nil, "cores>16, zone=a", "", "no host meets cores>16 (hosts have cores 16, 8), none meets zone=a (hosts have zone b, c)"},
		{nil, "", "cores>4", "every host has cores>4, which is to be avoided (hosts have cores 16, 8)"},
		{nil, "zone=a", "zone", "no host meets zone=a (hosts have zone b, c), every host has zone, which is to be avoided (hosts have zone b, c)"},
		{nil, "disk=ssd, gpu", "", "no host meets all conditions together: 1 host with disk=ssd, 1 host with gpu"},
		{label.Of("zone", "c"), "disk=ssd", "gpu", "no host meets all conditions together: 2 hosts with zone=c, 1 host with disk=ssd, 2 hosts without gpu"},
		{label.Of("disk", "ssd", "gpu", "1"), "cores>8, zone", "", "no host meets all conditions together: 1 host with disk=ssd, 1 host with gpu=1, 2 hosts with cores>8 and 1 more condition"},
	} {
		conditions := hostlabels.Conditions(test.required, rules(t, test.must), rules(t, test.never))
		if got := fleet.Unmet(conditions); got != test.want {
			t.Errorf("%v, %s, not %s:\n got %s\nwant %s", test.required, test.must, test.never, got, test.want)
		}
	}
	if got, want := census(nil).Unmet(hostlabels.Conditions(label.Of("zone", "a"), nil, nil)), "no host meets zone=a (no host has a label zone or any other)"; got != want {
		t.Errorf("%q, want %q", got, want)
	}
}

func TestOfManyValuesTheCommonestAreNamed(t *testing.T) {
	c := &hostlabels.Census{}
	for i := range 300 {
		c.Add(label.Of("name", fmt.Sprintf("h%03d", i), "zone", string(rune('a'+i%20))))
	}
	c.Add(label.Of("zone", "t"))
	c.Add(label.Of("zone", "s"))
	if got, want := c.Unmet(hostlabels.Conditions(label.Of("zone", "x"), nil, nil)), "no host meets zone=x (hosts have zone a, b, c, s, t and 15 more)"; got != want {
		t.Errorf("%q, want %q", got, want)
	}
	if got, want := c.Unmet(hostlabels.Conditions(label.Of("name", "x"), nil, nil)), "no host meets name=x (hosts have name h000, h001, h002, h003, h004 and 295 more)"; got != want {
		t.Errorf("%q, want %q", got, want)
	}
}

func TestLacksNamesWhatAHostDoesNotMeet(t *testing.T) {
	labels := label.Of("zone", "b", "cores", "8")
	for _, test := range []struct{ must, never, want string }{
		{"zone=b, cores>4", "gpu", ""},
		{"zone=a, cores>4", "", "zone=a (it has zone=b)"},
		{"gpu, zone notin (b,c)", "cores>4", "gpu (it has no label gpu), zone notin (b,c) (it has zone=b), not cores>4 (it has cores=8)"},
		{"gpu, ssd, fast, near, big", "", "gpu (it has no label gpu), ssd (it has no label ssd), fast (it has no label fast) and 2 more conditions"},
	} {
		if got := hostlabels.Lacks(labels, hostlabels.Conditions(nil, rules(t, test.must), rules(t, test.never))); got != test.want {
			t.Errorf("%s, not %s:\n got %s\nwant %s", test.must, test.never, got, test.want)
		}
	}
}

// Whatever hosts and requests have as labels, a text is short, on one line, valid, and the same for
// the same hosts in another order.
func TestTextsAreBoundedAndHaveOneOrder(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		value := rapid.StringN(1, 60, 255).Filter(func(s string) bool { return !strings.ContainsFunc(s, unicode.IsControl) })
		key := rapid.SampledFrom([]string{"a", "b", "c", strings.Repeat("k", 63)})
		sets := rapid.SliceOfN(rapid.MapOfN(key, value, 0, 4), 1, 20).Draw(t, "hosts")
		hosts := make([]label.Set, len(sets))
		for i, set := range sets {
			var err error
			if hosts[i], err = label.FromMap(set); err != nil {
				t.Fatal(err)
			}
		}
		required, err := label.FromMap(rapid.MapOfN(key, value, 1, 4).Draw(t, "required"))
		if err != nil {
			t.Fatal(err)
		}
		conditions := hostlabels.Conditions(required, rules(&testing.T{}, "z in (1,2), q"), nil)
		text := census(hosts...).Unmet(conditions)
		other := &hostlabels.Census{}
		for i := range hosts {
			other.Add(hosts[len(hosts)-1-i])
		}
		other.Add(hosts[0])
		other.Remove(hosts[0])
		if again := other.Unmet(conditions); again != text {
			t.Fatalf("%q, in another order %q", text, again)
		}
		for _, text := range []string{text, hostlabels.Lacks(hosts[0], conditions)} {
			if len(text) > 600 || !utf8.ValidString(text) || strings.ContainsFunc(text, func(r rune) bool { return !unicode.IsPrint(r) }) {
				t.Fatalf("%d bytes: %q", len(text), text)
			}
		}
	})
}

// Of many values, some are compared with a rule about numbers, and the answer does not depend on
// which.
func TestMayHoldComparesSomeOfManyValues(t *testing.T) {
	c := &hostlabels.Census{}
	for i := range 10_000 {
		c.Add(label.Of("n", fmt.Sprint(i)))
	}
	for text, want := range map[string]bool{"n>9998": true, "n>10000": true, "n in (10000,x)": false, "n in (x,9999)": true, "n=x": false, "!n": false, "m": false, "m>1": false} {
		if got := c.MayHold(&rules(t, text)[0], true); got != want {
			t.Errorf("%s: %t", text, got)
		}
	}
	rule := rules(t, "n in (x,y,z)")[0]
	if n := testing.AllocsPerRun(100, func() { c.MayHold(&rule, true) }); n != 0 {
		t.Errorf("%v allocations", n)
	}
}

// A census counts what a look at each host finds, whatever comes and goes.
func TestACensusCountsAsALookAtEachHostDoes(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		set := rapid.Custom(func(t *rapid.T) label.Set {
			labels, _ := label.FromMap(rapid.MapOfN(rapid.SampledFrom([]string{"a", "b", "c"}), rapid.SampledFrom([]string{"", "1", "2", "3", "x"}), 0, 3).Draw(t, "labels"))
			return labels
		})
		c, there := &hostlabels.Census{}, []label.Set(nil)
		for range rapid.IntRange(1, 30).Draw(t, "steps") {
			if len(there) > 0 && rapid.Bool().Draw(t, "remove") {
				i := rapid.IntRange(0, len(there)-1).Draw(t, "which")
				c.Remove(there[i])
				there = append(there[:i], there[i+1:]...)
				continue
			}
			labels := set.Draw(t, "host")
			c.Add(labels)
			there = append(there, labels)
		}
		for _, text := range []string{"a", "!a", "a=1", "a in (1,x)", "b notin (2,3)", "c>1", "c<3", `a=""`} {
			rule, err := label.ParseRule(text)
			if err != nil {
				t.Fatal(err)
			}
			want := 0
			for _, labels := range there {
				if rule.Holds(labels) {
					want++
				}
			}
			must := hostlabels.Conditions(nil, []label.Rule{rule}, nil)
			never := hostlabels.Conditions(nil, nil, []label.Rule{rule})
			if got, not := c.Meet(must[0]), c.Meet(never[0]); got != want || not != len(there)-want {
				t.Fatalf("%s: %d hosts meet it, %d do not; want %d of %d", text, got, not, want, len(there))
			}
			if holds, fails := c.MayHold(&rule, true), c.MayHold(&rule, false); holds != (want > 0) || fails != (want < len(there)) {
				t.Fatalf("%s: it may hold: %t, or not: %t; it holds for %d of %d", text, holds, fails, want, len(there))
			}
		}
	})
}
