package wire

import (
	"fmt"
	"strings"
	"testing"

	bursarv1 "github.com/bursar/bursar/proto/bursar/v1"
)

// Each value is compared with the label of each host, so the values of all conditions are bounded
// together, in every place of a request.
func TestTheValuesOfAllConditionsAreBoundedTogether(t *testing.T) {
	conditions := func(n, values int) (list []string) {
		for i := range n {
			var words []string
			for j := range values {
				words = append(words, fmt.Sprint("v", j))
			}
			list = append(list, fmt.Sprintf("k%d notin (%s)", i, strings.Join(words, ",")))
		}
		return list
	}
	for name, test := range map[string]struct {
		wishes *bursarv1.HostWishes
		want   string
	}{
		"the most":         {&bursarv1.HostWishes{RequiredRules: conditions(16, 2), PreferredRules: conditions(1, 30), AvoidedRules: []string{"a=b", "!c", "d", "e>1"}}, ""},
		"without a value":  {&bursarv1.HostWishes{RequiredRules: conditions(1, 64), AvoidedRules: []string{"!c", "d"}}, ""},
		"the same twice":   {&bursarv1.HostWishes{RequiredRules: []string{"zone in (a" + strings.Repeat(",a", 63) + ")"}, AvoidedRules: conditions(1, 63)}, ""},
		"required ones":    {&bursarv1.HostWishes{RequiredRules: conditions(16, 5)}, `host.required_rules: "80 values": want at most 64 in all conditions`},
		"preferred ones":   {&bursarv1.HostWishes{RequiredRules: conditions(1, 64), PreferredRules: []string{"a=b"}}, `host.preferred_rules: "65 values": want at most 64 in all conditions`},
		"all of the three": {&bursarv1.HostWishes{RequiredRules: conditions(2, 11), PreferredRules: conditions(2, 11), AvoidedRules: conditions(3, 7)}, `host.avoided_rules: "65 values": want at most 64 in all conditions`},
		"one by itself":    {&bursarv1.HostWishes{AvoidedRules: append([]string{"a"}, conditions(1, 65)...)}, `want at most 64 values, not 65`},
	} {
		_, err := WishesFrom(test.wishes)
		if test.want == "" && err != nil || test.want != "" && (err == nil || !strings.Contains(err.Error(), test.want)) {
			t.Errorf("%s: %v, want %q", name, err, test.want)
		}
	}
}
