package requests

import (
	"slices"
	"strings"
	"testing"

	"github.com/spf13/cobra"

	bursarv1 "github.com/bursar/bursar/proto/bursar/v1"
)

// placed reads the flags of a place.
func placed(t *testing.T, args ...string) (*bursarv1.HostWishes, error) {
	t.Helper()
	cmd := &cobra.Command{Use: "x", SilenceErrors: true, SilenceUsage: true, Run: func(*cobra.Command, []string) {}}
	f := AddFlags(cmd)
	AddPlaceFlags(cmd, f)
	cmd.SetArgs(append([]string{"-m", "1MiB"}, args...))
	if err := cmd.Execute(); err != nil {
		return nil, err
	}
	req, err := f.Request()
	return req.GetHost(), err
}

func TestConditionsOnHosts(t *testing.T) {
	w, err := placed(t, "--require", "zone=a", "--require", "disk=*", "--require", "rack in (1, 2),!old", "--require", "cores > 8", "--require", `note="x, y"`,
		"--prefer", "ssd", "--prefer", "zone=b", "--prefer", "zone2==b,zone3 != c", "--avoid", "vm-7,vm-8", "--avoid", "zone in (c,d)", "--avoid", "gpu=old", "--avoid", "!new")
	if err != nil {
		t.Fatal(err)
	}
	for name, test := range map[string]struct{ got, want []string }{
		"required rules":  {w.GetRequiredRules(), []string{"rack in (1,2)", "!old", "cores>8"}},
		"preferred rules": {w.GetPreferredRules(), []string{"ssd", "zone3!=c"}},
		"avoided rules":   {w.GetAvoidedRules(), []string{"zone in (c,d)", "gpu=old", "!new"}},
		"avoided hosts":   {w.GetAvoid(), []string{"vm-7", "vm-8"}},
	} {
		if !slices.Equal(test.got, test.want) {
			t.Errorf("%s: %q, want %q", name, test.got, test.want)
		}
	}
	if l := w.GetRequiredLabels(); len(l) != 3 || l["zone"] != "a" || l["disk"] != "*" || l["note"] != "x, y" {
		t.Errorf("required labels: %v", l)
	}
	if l := w.GetPreferredLabels(); len(l) != 2 || l["zone"] != "b" || l["zone2"] != "b" {
		t.Errorf("preferred labels: %v", l)
	}
}

func TestAMistakeInAConditionIsShown(t *testing.T) {
	for _, test := range []struct{ flag, value, want string }{
		{"--require", "zone within (a)", "zone in (a, b)"},
		{"--require", "zone in (a", "zone in (a, b)"},
		{"--require", "zone=a,cores>x", `"cores>x"`},
		{"--require", "", "want a condition"},
		{"--prefer", "cores>=8", "cores>8"},
		{"--require", "zone=a;gpu=no", "zone in (a, b)"},
		{"--require", "zone=>3", "zone in (a, b)"},
		{"--require", "zone = = a", "zone in (a, b)"},
		{"--avoid", "zone in", "zone in (a, b)"},
		{"--avoid", "", "want"},
		{"--require", "1zone=a", "the key"},
		{"--avoid", "zone=", ""},
	} {
		w, err := placed(t, test.flag, test.value)
		if test.want == "" {
			if err != nil {
				t.Errorf("%s %q: %v", test.flag, test.value, err)
			}
			continue
		}
		if err == nil || !strings.Contains(err.Error(), test.want) {
			t.Errorf("%s %q: %v, %v; want %q", test.flag, test.value, w, err, test.want)
		}
	}
	if _, err := placed(t, "--require", "zone=a", "--require", "zone=b"); err == nil || !strings.Contains(err.Error(), "want one value") {
		t.Errorf("two values: %v", err)
	}
	if _, err := placed(t, "--require", "zone=a", "--require", "zone=b,!old"); err == nil || !strings.Contains(err.Error(), "zone in (a, b)") {
		t.Errorf("two values: %v", err)
	}
}
