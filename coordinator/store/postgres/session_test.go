package postgres

import (
	"regexp"
	"strings"
	"testing"
)

// A server refuses a connection that sets a setting unknown to it. So only settings of every
// compatible server are set without a query.
func TestASettingThatAServerMayLackIsSetOnlyIfItHasIt(t *testing.T) {
	everywhere := map[string]bool{"default_transaction_isolation": true, "synchronous_commit": true}
	set := regexp.MustCompile(`set_config\('(\w+)'`).FindAllStringSubmatch(sessionSQL, -1)
	if len(set) < 7 {
		t.Fatalf("%d settings were found", len(set))
	}
	for _, m := range set {
		guard := "CASE WHEN current_setting('" + m[1] + "', true) IS NOT NULL THEN " + m[0]
		if !everywhere[m[1]] && !strings.Contains(sessionSQL, guard) {
			t.Errorf("%s is set on servers that may lack it: want %q", m[1], guard)
		}
	}
}
