package resource

import (
	"errors"
	"strings"
	"testing"

	"pgregory.net/rapid"
)

func TestParseExternal(t *testing.T) {
	small := Vector{}.WithMemory(4 << 30).WithCPU(4000)
	for text, want := range map[string]External{
		"yarn:default:root.a.a1,memory=4GiB,cpu=4": {Address{"yarn", "default", "root.a.a1", ""}, small},
		"yarn:prod:root.a@gpu,cpu=4,memory=4GiB":   {Address{"yarn", "prod", "root.a", "gpu"}, small},
		"yarn::root.a,memory=4GiB,cpu=4":           {Address{"yarn", "", "root.a", ""}, small},
		"yarn:root.a,memory=4GiB,cpu=4":            {Address{"yarn", "", "root.a", ""}, small},
		"yarn:root.a@gpu,memory=4GiB,cpu=4":        {Address{"yarn", "", "root.a", "gpu"}, small},
		"yarn:a1,memory=4GiB,cpu=4":                {Address{"yarn", "", "a1", ""}, small},
		"yarn:prod:root.users.alice@corp@,cpu=500m": {
			Address{"yarn", "prod", "root.users.alice@corp", ""}, Vector{}.WithCPU(500),
		},
		"yarn:prod:root.users.alice@corp@gpu,instances=3": {
			Address{"yarn", "prod", "root.users.alice@corp", "gpu"}, Vector{}.WithInstances(3),
		},
		"yarn:prod:root.a:b,yarn.io/gpu=1": {Address{"yarn", "prod", "root.a:b", ""}, Vector{}.With("yarn.io/gpu", 1)},
		"yarn:prod:root.a,none":            {Address{"yarn", "prod", "root.a", ""}, Vector{}},
		"yarn:prod:root.a,memory=0":        {Address{"yarn", "prod", "root.a", ""}, Vector{}.WithMemory(0)},
	} {
		got, err := ParseExternal(text)
		if err != nil || !got.Equal(want) {
			t.Errorf("ParseExternal(%q) = %v, %v; want %v", text, got, err, want)
		}
	}
}

func TestParseExternalSaysWhatIsWrong(t *testing.T) {
	for text, want := range map[string]string{
		"":                                    `external: "": want KIND:CLUSTER:PATH and quantities, such as yarn:default:root.a,memory=4GiB,cpu=4`,
		"root.a,memory=4GiB":                  `external: "root.a": want KIND:CLUSTER:PATH`,
		"memory=4GiB,yarn:root.a":             `external: "memory=4GiB": want KIND:CLUSTER:PATH`,
		"yarn:root.a":                         `external: "yarn:root.a": want quantities behind the address, as in yarn:default:root.a,memory=4GiB`,
		"yarn:root.a,":                        `external[yarn::root.a]: "": want NAME=QUANTITY, as in yarn:default:root.a,memory=4GiB`,
		"yarn:root.a,4GiB":                    `external[yarn::root.a]: "4GiB": want NAME=QUANTITY`,
		"yarn:root.a,memory=4GiB,memory=2GiB": `external[yarn::root.a].memory: "2GiB": want each dimension once`,
		"yarn:root.a,memory=4 GB":             `external[yarn::root.a].memory: "4 GB": want a size such as 4GiB`,
		"yarn:root.a,cpu=-1":                  `external[yarn::root.a].cpu: "-1": want cores`,
		"yarn:root.a,gpu=1.5":                 `external[yarn::root.a].gpu: "1.5": want a whole number`,
		"yarn:root.a,=1":                      `external[yarn::root.a].custom: "": want a letter`,
		"yarn:root.a@,memory=4GiB":            `external: "yarn:root.a@": want the partition behind @`,
		"YARN:root.a,memory=4GiB":             `external[YARN:root.a].kind: "YARN": want a lower case letter`,
		"yarn:,memory=4GiB":                   `external[yarn:].path: "": want the place in the cluster`,
		"yarn:prod:,memory=4GiB":              `external[yarn:prod:].path: "": want the place in the cluster`,
		"yarn:prod:@gpu,memory=4GiB":          `external[yarn:prod:@gpu].path: "": want the place in the cluster`,
		":root.a,memory=4GiB":                 `external[:root.a].kind: "": want a lower case letter`,
		"yarn:root.a,memory=4GiB,none":        `external[yarn::root.a]: "none": want NAME=QUANTITY`,
		"yarn:" + strings.Repeat("a", 513) + ",memory=1": `want at most 512 characters`,
	} {
		_, err := ParseExternal(text)
		if _, typed := errors.AsType[*FieldError](err); !typed || !strings.Contains(err.Error(), want) {
			t.Errorf("ParseExternal(%q): %v; want %q", text, err, want)
		}
	}
}

// addresses are all that can be written in one piece: without a comma, and without a colon in the
// cluster.
func addresses() *rapid.Generator[Address] {
	return rapid.Custom(func(t *rapid.T) Address {
		return Address{
			Kind:      rapid.SampledFrom([]string{"yarn", "kubernetes", "a-1"}).Draw(t, "kind"),
			Cluster:   rapid.StringMatching(`[^,:]{0,8}`).Draw(t, "cluster"),
			Path:      rapid.StringMatching(`(root\.)?[^,.]{1,8}(\.[^,.]{1,4})?`).Draw(t, "path"),
			Partition: rapid.StringMatching(`([a-z][a-z0-9_-]{0,5})?`).Draw(t, "partition"),
		}
	})
}

func TestExternalReadsBackExactly(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		e := External{Address: addresses().Draw(t, "address"), Vector: vectors().Draw(t, "vector")}
		if back := must(t, ParseExternal, e.String()); !back.Equal(e) {
			t.Fatalf("%#v became %#v by %v", e, back, e)
		}
	})
}

func FuzzParseExternal(f *testing.F) {
	for _, text := range []string{
		"yarn:default:root.a.a1@gpu,memory=4GiB,cpu=4,yarn.io/gpu=1", "yarn::root.a,none", "yarn:a@b@,instances=0", "yarn:a", ",", ":,=", "yarn:a:b:c,cpu=1m",
	} {
		f.Add(text)
	}
	f.Fuzz(func(t *testing.T, text string) {
		e, err := ParseExternal(text)
		if err != nil {
			if _, typed := errors.AsType[*FieldError](err); !typed {
				t.Fatalf("%q: %T is no *FieldError", text, err)
			}
			return
		}
		if err := NewResource(Vector{}, e).Validate(); err != nil {
			t.Fatalf("%q was read as %v, which is not valid: %v", text, e, err)
		}
		if back, err := ParseExternal(e.String()); err != nil || !back.Equal(e) {
			t.Fatalf("%q was read as %v, which reads as %v, %v", text, e, back, err)
		}
	})
}
