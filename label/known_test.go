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

// A key that is not known is refused if the coordinator says which are.
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
