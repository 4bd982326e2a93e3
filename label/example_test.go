package label_test

import (
	"fmt"

	"github.com/bursar/bursar/label"
)

// A quota for every user's engines in the IDE: its scope tells which account a request falls into.
func ExampleSelector() {
	selector, _ := label.ParseSelector("user=*,creator=IDE")
	for _, text := range []string{"user=alice,creator=IDE,engineType=spark", "user=bob,creator=cron", "creator=IDE"} {
		request, _ := label.Parse(text)
		fmt.Println(selector.Matches(request), selector.Scope().Project(request))
	}
	// Output:
	// true creator=IDE,user=alice
	// false creator=cron,user=bob
	// true creator=IDE,user=
}

// Labels are converted, filled in and derived before anything is decided by them.
func ExampleRules() {
	rules := label.Rules{
		Aliases:  []label.Alias{{Key: "engineType", Keys: []string{"engine_type"}}},
		Defaults: map[string]string{"creator": "shell"},
		Derived: []label.Derivation{
			{Key: "tenant", From: "user", Patterns: []label.Pattern{{Match: `([a-z]+)\..*`, Value: "${1}"}}, Default: "others"},
			{Key: "userCreator", Template: "${user}-${creator}"},
		},
		Required: []string{"user"},
	}
	preprocessor, err := rules.Compile()
	if err != nil {
		fmt.Println(err)
		return
	}
	for _, text := range []string{"user=ops.bob,engine_type=spark", "user=ops.bob,tenant=sales", "creator=IDE"} {
		request, _ := label.Parse(text)
		fmt.Println(preprocessor.Apply(request))
	}
	// Output:
	// creator=shell,engineType=spark,tenant=ops,user=ops.bob,userCreator=ops.bob-shell <nil>
	//  labels[tenant]: "sales" was claimed, but this label is derived, and here it is "ops"
	//  labels[user]: "": want a value: this label is required
}
