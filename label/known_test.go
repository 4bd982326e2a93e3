package label

import (
	"strings"
	"testing"
)

func TestNearMissesOfKnownKeys(t *testing.T) {
	for key, want := range map[string]string{
		"usr": User, "users": User, "User": User, "USER": User, "enginetype": EngineType, "engine_type": EngineType, "engine-typ": EngineType, "creatr": Creator,
		"tennant": Tenant, "clusters": Cluster, "queues": Queue,
		"user": "", "team": "", "project": "", "zone": "", "job/name": "", "uid": "", "owner": "", "type": "", "a": "",
	} {
		if got := Near(key, WellKnown()); got != want {
			t.Errorf("%q is near %q; want %q", key, got, want)
		}
	}
}

// An unknown key is refused if the coordinator lists the known ones.
func TestKeysThatAreNotKnownAreRefused(t *testing.T) {
	p, err := Rules{Aliases: []Alias{{Key: "engineType", Keys: []string{"engine"}}}, Defaults: map[string]string{"site": "a"}}.Compile()
	if err != nil {
		t.Fatal(err)
	}
	if _, err := p.Apply(Of("usr", "kim", "anything", "x")); err != nil {
		t.Errorf("no key is listed, and one is refused: %v", err)
	}
	if err := p.Restrict([]string{"project"}); err != nil {
		t.Fatal(err)
	}
	for _, good := range []Set{Of("user", "kim", "project", "x", "site", "b"), Of("engine", "spark", "tenant", "t"), nil} {
		if _, err := p.Apply(good); err != nil {
			t.Errorf("%v: %v", good, err)
		}
	}
	for _, bad := range []struct{ key, want string }{
		{"usr", "; did you mean user?"}, {"anything", "cluster, creator, engineType, project, queue, site, tenant, user"}, {"projects", "; did you mean project?"},
	} {
		_, err := p.Apply(Of("user", "kim", bad.key, "x"))
		if err == nil || !strings.Contains(err.Error(), "labels["+bad.key+`]: "x": want a label with one of the known keys (knownLabels`) || !strings.Contains(err.Error(), bad.want) {
			t.Errorf("%s: %v", bad.key, err)
		}
	}
	for _, wrong := range []string{"", "a b", "engine"} {
		if err := p.Restrict([]string{"ok", wrong}); err == nil || !strings.HasPrefix(err.Error(), "knownLabels[1]: ") {
			t.Errorf("%q may be known: %v", wrong, err)
		}
	}
}

// Short keys have no near misses, keys of four letters have those at distance one, keys of eight at
// distance two. Of equally near keys the first one is suggested.
func TestHowNearAMissIs(t *testing.T) {
	for _, c := range []struct {
		key   string
		known []string
		want  string
	}{
		{"abx", []string{"abc"}, ""},
		{"abcx", []string{"abcd"}, "abcd"},
		{"abxx", []string{"abcd"}, ""},
		{"abcdexx", []string{"abcdefg"}, ""},
		{"abcdefxx", []string{"abcdefgh"}, "abcdefgh"},
		{"abcdexxx", []string{"abcdefgh"}, ""},
		{"abcdefxx", []string{"abcdefgh", "abcdefxy"}, "abcdefxy"},
		{"abcx", []string{"abcd", "abce"}, "abcd"},
	} {
		if got := Near(c.key, c.known); got != c.want {
			t.Errorf("%s is near %q of %q; want %q", c.key, got, c.known, c.want)
		}
	}
	if got := Doubt("usr", WellKnown()); !strings.HasPrefix(got, "label usr: did you mean user? ") {
		t.Errorf("usr: %q", got)
	}
	if got := Doubt("team", WellKnown()); got != "" {
		t.Errorf("team: %q", got)
	}
}

func TestWhichKeysAreKnown(t *testing.T) {
	const wellKnown = "cluster creator engineType queue tenant user"
	var none *Preprocessor
	if got := strings.Join(none.Known(), " "); got != wellKnown || none.Restricts("x") || none.Gives("x") || !none.Gives(User) {
		t.Errorf("without rules: %s", got)
	}
	p, err := Rules{
		Aliases:  []Alias{{Key: "aliased", Keys: []string{"alias"}, Values: map[string]string{"a": "b"}}},
		Defaults: map[string]string{"given": "x"},
		Derived: []Derivation{
			{Key: "derived", From: "from", Values: map[string]string{"a": "b"}},
			{Key: "made", Template: "${part}-${user}"},
		},
		Required: []string{"wanted"},
	}.Compile()
	if err != nil {
		t.Fatal(err)
	}
	if got, want := strings.Join(p.Known(), " "), "aliased cluster creator derived engineType from given made part queue tenant user wanted"; got != want {
		t.Errorf("known are %s\nwant      %s", got, want)
	}
	for key, want := range map[string]bool{"given": true, "derived": true, "made": true, "wanted": true, "user": true, "from": false, "other": false} {
		if got := p.Gives(key); got != want {
			t.Errorf("every request has %s: %t", key, got)
		}
	}
	if p.Restricts("other") {
		t.Error("a key is refused before anybody said which are known")
	}
	if err := p.Restrict([]string{"zone", "zone", "extra"}); err != nil {
		t.Fatal(err)
	}
	if got, want := strings.Join(p.Known(), " "), "aliased cluster creator derived engineType extra from given made part queue tenant user wanted zone"; got != want {
		t.Errorf("known are %s\nwant      %s", got, want)
	}
	for key, want := range map[string]bool{"other": true, "alias": false, "zone": false, "user": false, "part": false} {
		if got := p.Restricts(key); got != want {
			t.Errorf("%s is refused: %t", key, got)
		}
	}
	if err := p.Restrict(nil); err != nil || p.Restricts("other") {
		t.Errorf("no keys restrict nothing: %v", err)
	}
}

// The error about an escape shows the value up to the escape, and no more.
func TestAnEscapeIsShownWithItsPlace(t *testing.T) {
	_, err := Parse(`user=a\,b=c`)
	if err == nil || !strings.HasPrefix(err.Error(), `labels[user]: "a\\,": `) {
		t.Errorf("%v", err)
	}
}
