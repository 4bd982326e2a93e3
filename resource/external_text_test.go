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

// addresses generates all valid addresses.
func addresses() *rapid.Generator[Address] {
	return rapid.Custom(func(t *rapid.T) Address {
		return Address{
			Kind:      rapid.SampledFrom([]string{"yarn", "kubernetes", "a-1"}).Draw(t, "kind"),
			Cluster:   oddText(0).Draw(t, "cluster"),
			Path:      oddPath().Draw(t, "path"),
			Partition: oddText(0).Draw(t, "partition"),
		}
	})
}

// oddText generates names with all characters that are special in the text form.
func oddText(least int) *rapid.Generator[string] {
	return rapid.OneOf(
		rapid.StringOfN(rapid.RuneFrom([]rune("a,@:=*\"\\' \t\u3164\u202e\u00a0ö#/\U000e0041")), least, 6, 100),
		rapid.StringN(least, 6, 100).Filter(func(s string) bool { return !strings.Contains(s, ".") }),
	)
}

func oddPath() *rapid.Generator[string] {
	return rapid.Custom(func(t *rapid.T) string {
		return strings.Join(rapid.SliceOfN(oddText(1), 1, 3).Draw(t, "names"), ".")
	})
}

func TestNamesAreQuotedOnlyWhereTheyMust(t *testing.T) {
	for want, at := range map[string]Address{
		"yarn:prod:root.a@gpu":           {"yarn", "prod", "root.a", "gpu"},
		"yarn::root.a":                   {"yarn", "", "root.a", ""},
		"yarn:*:*":                       {"yarn", "*", "*", ""},
		`yarn:prod:"root.a@x"`:           {"yarn", "prod", "root.a@x", ""},
		`yarn:prod:"root.a@x"@gpu`:       {"yarn", "prod", "root.a@x", "gpu"},
		`yarn:prod:"root.a,b"@"p,q"`:     {"yarn", "prod", "root.a,b", "p,q"},
		`yarn:"a:b":root.c:d`:            {"yarn", "a:b", "root.c:d", ""},
		`yarn:prod:"root.a "`:            {"yarn", "prod", "root.a ", ""},
		`yarn:prod:root.a=b*`:            {"yarn", "prod", "root.a=b*", ""},
		`yarn:prod:root.a"b\c`:           {"yarn", "prod", `root.a"b\c`, ""},
		`yarn:prod:"\"root"`:             {"yarn", "prod", `"root`, ""},
		`yarn:prod:"root.a\u202e\u3164"`: {"yarn", "prod", "root.a\u202e\u3164", ""},
		`yarn:prod:root.two words`:       {"yarn", "prod", "root.two words", ""},
		"yarn:prod:root.größe":           {"yarn", "prod", "root.größe", ""},
	} {
		if got := at.String(); got != want {
			t.Errorf("%+v is written %s; want %s", at, got, want)
		}
		if e, err := ParseExternal(want + ",cpu=1"); err != nil || e.Address != at {
			t.Errorf("%s was read as %+v, %v", want, e.Address, err)
		}
		if back, err := ParseQueue(want); err != nil || back != at {
			t.Errorf("%s was read as the queue %+v, %v", want, back, err)
		}
	}
	for _, text := range []string{`yarn:prod:"root.a,cpu=1`, `yarn:prod:"root.a"b,cpu=1`, `yarn:prod:"root.\n",cpu=1`, `yarn:"prod,cpu=1`, `yarn:prod:root.a@"p,cpu=1`} {
		if e, err := ParseExternal(text); err == nil || !strings.Contains(err.Error(), "double quotes") {
			t.Errorf("%s: %+v, %v", text, e, err)
		}
	}
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
		"yarn:default:root.a.a1@gpu,memory=4GiB,cpu=4,yarn.io/gpu=1", "yarn::root.a,none", "yarn:a@b@,instances=0", "yarn:a", ",", ":,=", "yarn:a:b:c,cpu=1m", `yarn:"a:b":"c,d"@"e",cpu=1`, `yarn:"a"@p,cpu=1`,
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
