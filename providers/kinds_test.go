package providers

import (
	"errors"
	"strings"
	"testing"
)

type named struct {
	Kind

	name string
}

func (k named) Name() string { return k.name }

func TestKindsAreFoundByName(t *testing.T) {
	kinds := Kinds{named{name: "yarn"}, named{name: "other"}}
	if k, err := kinds.Find("other"); err != nil || k.Name() != "other" {
		t.Errorf("%v, %v", k, err)
	}
	_, err := kinds.Find("k8s")
	if unknown, ok := errors.AsType[*KindError](err); !ok || unknown.Kind != "k8s" || err.Error() != `kind: "k8s": want yarn or other` {
		t.Errorf("got %v", err)
	}
	if _, err := (Kinds{}).Find("yarn"); err == nil || !strings.Contains(err.Error(), "no providers") {
		t.Errorf("got %v", err)
	}
}

func TestClusterNamesCanStandInAddresses(t *testing.T) {
	for name, want := range map[string]bool{
		"prod": true, "p": true, "9": true, "Prod-1.eu_west": true, strings.Repeat("a", 128): true,
		"": false, strings.Repeat("a", 129): false, "-a": false, ".a": false, "a:b": false, "a,b": false, "a b": false, "ä": false, "a\n": false, "a@b": false,
	} {
		if got := ValidCluster(name); got != want {
			t.Errorf("%q: %v", name, got)
		}
	}
}
