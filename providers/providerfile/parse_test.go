package providerfile

import (
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"google.golang.org/protobuf/testing/protocmp"

	bursarv1 "github.com/bursar/bursar/proto/bursar/v1"
	"github.com/bursar/bursar/providers"
)

// fake is a kind with the setting addresses, which must not be "wrong".
type fake struct{ providers.Kind }

func (fake) Name() string { return "fake" }

func (fake) Check(settings map[string]string) error {
	if a := settings["addresses"]; a == "" || strings.Contains(a, "wrong") {
		return &providers.SettingError{Setting: "addresses", Value: a, Want: "addresses that are right"}
	}
	_, err := providers.PaceFrom(settings)
	return err
}

func TestParse(t *testing.T) {
	got, err := Parse("p.yaml", []byte(`
providers:
  - kind: fake
    cluster: prod
    default: true
    settings: {addresses: "http://rm1:8088,http://rm2:8088", interval: 5s}
  - {kind: fake, cluster: 9, settings: {addresses: 7}}
  - kind: fake
    cluster: list
    settings:
      addresses: [/a, "b c", 0660, 'say "<x>"']
`), providers.Kinds{fake{}})
	if err != nil {
		t.Fatal(err)
	}
	want := []*bursarv1.Provider{
		{Kind: "fake", Cluster: "prod", Default: true, Settings: map[string]string{"addresses": "http://rm1:8088,http://rm2:8088", "interval": "5s"}},
		{Kind: "fake", Cluster: "9", Settings: map[string]string{"addresses": "7"}},
		{Kind: "fake", Cluster: "list", Settings: map[string]string{"addresses": `["/a","b c","0660","say \"<x>\""]`}},
	}
	if diff := cmp.Diff(want, got, protocmp.Transform()); diff != "" {
		t.Error(diff)
	}
	if none, err := Parse("p.yaml", []byte("providers: []"), nil); err != nil || len(none) != 0 {
		t.Errorf("none: %v, %v", none, err)
	}
}

func TestWhatIsWrongIsSaidWhereItStands(t *testing.T) {
	const one = "  - {kind: fake, cluster: prod, settings: {addresses: a}}\n"
	for name, c := range map[string]struct{ text, want string }{
		"no list":           {"{}", "p.yaml:1:1: providers: missing: want a list of providers, or [] for none"},
		"unknown field":     {"providers:\n  - kin: fake", "p.yaml:2:5: providers[0].kin: unknown field: want kind, cluster, default or settings"},
		"no kind":           {"providers:\n  - cluster: a", "p.yaml:2:5: providers[0].kind: missing: want one, such as yarn"},
		"unknown kind":      {"providers:\n  - {kind: yarn, cluster: a}", `p.yaml:2:12: providers[0].kind: "yarn": want fake`},
		"no cluster":        {"providers:\n  - kind: fake", "p.yaml:2:5: providers[0].cluster: missing: want a name for the cluster"},
		"cluster":           {"providers:\n  - {kind: fake, cluster: 'a b'}", `p.yaml:2:27: providers[0].cluster: "a b": want ` + providers.WantCluster},
		"default":           {"providers:\n  - kind: fake\n    cluster: a\n    default: yes", `p.yaml:4:14: providers[0].default: "yes": want true or false`},
		"missing setting":   {"providers:\n  - kind: fake\n    cluster: a", "p.yaml:2:5: providers[0].settings.addresses: missing: want addresses that are right"},
		"setting":           {"providers:\n  - kind: fake\n    cluster: a\n    settings:\n      addresses: wrong", `p.yaml:5:18: providers[0].settings.addresses: "wrong": want addresses that are right`},
		"setting, no value": {"providers:\n  - kind: fake\n    cluster: a\n    settings:\n      addresses:", "p.yaml:5:7: providers[0].settings.addresses: has no value: want one, or leave the line out"},
		"a list in a list":  {"providers:\n  - kind: fake\n    cluster: a\n    settings: {addresses: [a, [b]]}", "p.yaml:4:31: providers[0].settings.addresses[1]: is a list: want a single value"},
		"pace":              {"providers:\n  - kind: fake\n    cluster: a\n    settings: {addresses: a, interval: 1s}", `p.yaml:4:40: providers[0].settings.interval: "1s": want a duration such as 5s, from 2s to 1h0m0s`},
		"twice":             {"providers:\n" + one + one, "p.yaml:3:27: providers[1].cluster: fake:prod: already the cluster of providers[0]: want one provider for it"},
		"two defaults": {
			"providers:\n  - {kind: fake, cluster: a, default: true, settings: {addresses: a}}\n  - {kind: fake, cluster: b, default: true, settings: {addresses: a}}\n",
			"p.yaml:3:39: providers[1].default: providers[0] is the default of kind fake already: want one",
		},
		"too many": {"providers:\n" + strings.Repeat(one, 1001), "p.yaml:1002:5: providers[1000]: 1001 providers: want at most 1000"},
		"no YAML":  {"providers: [", "p.yaml:1"},
	} {
		t.Run(name, func(t *testing.T) {
			_, err := Parse("p.yaml", []byte(c.text), providers.Kinds{fake{}})
			if _, ok := errors.AsType[*Error](err); !ok || !strings.HasPrefix(fmt.Sprint(err), c.want) {
				t.Errorf("got  %v\nwant %s", err, c.want)
			}
		})
	}
}

// hiding is a kind that treats every unknown value as a secret.
type hiding struct{ fake }

func (hiding) Check(settings map[string]string) error {
	for name := range settings {
		return &providers.SettingError{Setting: name, Value: providers.Hidden, Want: "another"}
	}
	return nil
}

func TestWhatMayBeASecretIsNotShown(t *testing.T) {
	_, err := Parse("p.yaml", []byte("providers:\n  - kind: fake\n    cluster: prod\n    settings:\n      password: hunter2\n"), providers.Kinds{hiding{}})
	wrong, ok := errors.AsType[*Error](err)
	if !ok {
		t.Fatal(err)
	}
	if want := `p.yaml:5:17: providers[0].settings.password: "***": want another`; wrong.Error() != want || wrong.Excerpt() != "" {
		t.Errorf("%v\n%s\nwant %s, and no excerpt", wrong, wrong.Excerpt(), want)
	}
}
