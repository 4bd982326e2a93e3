package yamlfile_test

import (
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/bursar/bursar/internal/yamlfile"
	"github.com/bursar/bursar/resource"
)

type server struct {
	Listen yamlfile.Scalar            `yaml:"listen"`
	Labels map[string]yamlfile.Scalar `yaml:"labels"`
	Stores []store                    `yaml:"stores"`
}

type store struct {
	Path yamlfile.Scalar `yaml:"path"`
	Keep yamlfile.Scalar `yaml:"keep"`
}

func decode(text string) (server, *yamlfile.Document, error) {
	var s server
	d, err := yamlfile.Parse("server.yaml", []byte(text))
	if err == nil {
		err = d.Decode(&s)
	}
	return s, d, err
}

func TestScalarKeepsTheTextAsWritten(t *testing.T) {
	s, _, err := decode("listen: 0.50\nlabels:\n  a: yes\n  b: \"*\"\n  c: 0x10\n  d: 1_000\n  e: ''\n  f:\n  g: ~\n  h: &x 007\n  i: *x\n  j: |\n    two\n    lines\n")
	if err != nil {
		t.Fatal(err)
	}
	got := map[string]string{"listen": s.Listen.String()}
	for key, value := range s.Labels {
		if got[key] = value.String(); !value.IsSet() {
			got[key] = "unset"
		}
	}
	want := map[string]string{
		"listen": "0.50", "a": "yes", "b": "*", "c": "0x10", "d": "1_000", "e": "", "f": "unset", "g": "unset", "h": "007", "i": "007",
		"j": "two\nlines\n",
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
}

func TestEmptyDocumentLeavesTheDefaults(t *testing.T) {
	for _, text := range []string{"", "# nothing\n", "---\n"} {
		if s, _, err := decode(text); err != nil || s.Listen.IsSet() {
			t.Errorf("%q: %+v, %v", text, s, err)
		}
	}
}

func TestErrorsPointToTheirPlace(t *testing.T) {
	for name, c := range map[string]struct{ text, want string }{
		"unknown field": {
			"listen: a\nlisten_on: b\n",
			"server.yaml:2:1: listen_on: unknown field: want listen, labels or stores\n" +
				"    1 | listen: a\n" +
				"    2 | listen_on: b\n" +
				"      | ^\n",
		},
		"unknown field below": {
			"stores:\n- path: /x\n- path: /y\n  kepp: 3\n",
			"server.yaml:4:3: stores[1].kepp: unknown field: want path or keep\n" +
				"    3 | - path: /y\n" +
				"    4 |   kepp: 3\n" +
				"      |   ^\n",
		},
		"field twice": {
			"listen: a\nlisten: b\n",
			"server.yaml:2:1: listen: occurs twice, first in line 1\n    1 | listen: a\n    2 | listen: b\n      | ^\n",
		},
		"list for a value": {
			"listen: [a]\n",
			"server.yaml:1:9: listen: is a list: want a single value\n    1 | listen: [a]\n      |         ^\n",
		},
		"value for a list": {
			"stores: 3\n",
			"server.yaml:1:9: stores: is a single value: want a list\n    1 | stores: 3\n      |         ^\n",
		},
		"bare star in a block": {
			"labels:\n  user: *\n",
			"server.yaml:2:9: a * has to be quoted: want \"*\"\n    1 | labels:\n    2 |   user: *\n      |         ^\n",
		},
		"bare star in braces": {
			"labels: {user: *}\n",
			"server.yaml:1:16: a * has to be quoted: want \"*\"\n    1 | labels: {user: *}\n      |                ^\n",
		},
		"second document": {
			"listen: a\n---\nlisten: b\n",
			"server.yaml:3:1: a second document: want one\n    2 | ---\n    3 | listen: b\n      | ^\n",
		},
		"tab": {
			"labels:\n\tuser: a\n",
			"server.yaml:2:1: a tab: want spaces, as YAML takes no tabs there\n    1 | labels:\n    2 |  user: a\n      | ^\n",
		},
	} {
		t.Run(name, func(t *testing.T) {
			_, _, err := decode(c.text)
			var e *yamlfile.Error
			if !errors.As(err, &e) {
				t.Fatalf("%v: want an *Error", err)
			}
			if diff := cmp.Diff(c.want, e.Error()+"\n"+e.Excerpt()); diff != "" {
				t.Error(diff)
			}
		})
	}
}

func TestPlainTextsAndListsAreNamedInWords(t *testing.T) {
	for text, want := range map[string]string{
		"path: [a]\n":    "f.yaml:1:7: path: is a list: want a single value",
		"path: {a: b}\n": "f.yaml:1:7: path: is a set of fields: want a single value",
	} {
		doc, err := yamlfile.Parse("f.yaml", []byte(text))
		if err != nil {
			t.Fatal(err)
		}
		var into struct {
			Path string `yaml:"path"`
		}
		if err := doc.Decode(&into); err == nil || err.Error() != want {
			t.Errorf("%s: %v, want %s", text, err, want)
		}
	}
}

func TestNothingIsRounded(t *testing.T) {
	type limits struct {
		Count    int           `yaml:"count"`
		Interval time.Duration `yaml:"interval"`
		Ratio    float64       `yaml:"ratio"`
		Name     string        `yaml:"name"`
		On       bool          `yaml:"on"`
		Size     resource.Size `yaml:"size"`

		Sizes map[string]resource.Size `yaml:"sizes"`
	}
	for text, want := range map[string]string{
		"count: 1.5":                  `x:1:8: count: "1.5": want a whole number`,
		"interval: 5":                 `x:1:11: interval: "5": want a duration with its unit, such as 500ms, 30s or 5m`,
		"interval: 5s":                "",
		"interval: 1d":                "",
		"interval: '1d12h' # so long": "",
		"ratio: 1.5":                  "",
		"ratio: 2":                    "",
		"name: 7070":                  "",
		"{count: 3}":                  "",
		"interval: soon":              `x:1:11: interval: "soon": want a duration`,
		"count: 1e30":                 `x:1:8: count: "1e30": want a whole number`,
		"count: yes":                  `x:1:8: count: "yes": want a whole number`,
		"count: '3'":                  "",
		"on: maybe":                   `x:1:5: on: "maybe": want true or false`,
		"on: true":                    "",
		"count: [3]":                  "x:1:8: count: is a list: want a whole number",
		"count:\n  a: 3":              "x:2:3: count: is a set of fields: want a whole number",
		"interval: {a: 5s}":           "x:1:11: interval: is a set of fields: want a duration",
		"on: [true]":                  "x:1:5: on: is a list: want true or false",
		"size: [1]":                   "x:1:7: size: is a list: want a size such as 4GiB",
		"size:\n- 1":                  "x:2:1: size: is a list: want a size such as 4GiB",
		"size: {a: 1}":                "x:1:7: size: is a set of fields: want a size such as 4GiB",
		"sizes: {a: [1]}":             "x:1:12: sizes.a: is a list: want a size such as 4GiB",
		"size: 1.5":                   "",
		"count: 99999999999999999999": "x:1:8: count: cannot unmarshal 99999999999999999999 into Go value of type int ( overflow )",
	} {
		var l limits
		d, err := yamlfile.Parse("x", []byte(text))
		if err == nil {
			err = d.Decode(&l)
		}
		if (err == nil) != (want == "") || (err != nil && !strings.HasPrefix(err.Error(), want)) {
			t.Errorf("%s: %v; want %q", text, err, want)
		}
	}
}

func TestAtPointsToTheInnermostPartThatIsThere(t *testing.T) {
	_, d, err := decode("listen: a\nlabels: {user: bob, 'a/b': c}\nstores:\n- path: /x\n- path: /y\n  keep:\n")
	if err != nil {
		t.Fatal(err)
	}
	for field, want := range map[string][2]int{
		"listen":          {1, 9},
		"labels[user]":    {2, 16},
		"labels.user":     {2, 16},
		"labels[a/b]":     {2, 28},
		"labels[zone]":    {2, 9},
		"stores[1].path":  {5, 9},
		"stores[1].keep":  {6, 3},
		"stores[1]":       {5, 3},
		"stores[0].keep":  {4, 3},
		"stores[7].path":  {4, 1},
		"nothing.of.this": {1, 1},
	} {
		e := d.At(field, "wrong")
		if got := [2]int{e.Line, e.Column}; got != want || e.Field != field {
			t.Errorf("%s is at %v, want %v\n%s", field, got, want, e.Excerpt())
		}
	}
	empty, err := yamlfile.Parse("x", nil)
	if err != nil {
		t.Fatal(err)
	}
	if e := empty.At("listen", "missing"); e.Error() != "x: listen: missing" || e.Excerpt() != "" {
		t.Errorf("%v", e)
	}
}

func TestHugeFileIsRefusedUnread(t *testing.T) {
	if _, err := yamlfile.Parse("x", make([]byte, yamlfile.MaxBytes+1)); err == nil {
		t.Error("want an error")
	}
}

func TestScalarsAreReadWithinTheirBounds(t *testing.T) {
	for text, want := range map[string]bool{"1": true, "10": true, "0": false, "11": false, "1.5": false, "x": false, "": false, "0x5": false} {
		if _, wrong := yamlfile.NewScalar(text).Int(1, 10); (wrong == "") != want {
			t.Errorf("Int %q: %q", text, wrong)
		}
	}
	for text, want := range map[string]bool{"1s": true, "1m": true, "999ms": false, "2m": false, "5": false, "": false} {
		if _, wrong := yamlfile.NewScalar(text).Duration(time.Second, time.Minute); (wrong == "") != want {
			t.Errorf("Duration %q: %q", text, wrong)
		}
	}
	for text, want := range map[string]bool{"true": true, "false": true, "yes": false, "": false} {
		if b, wrong := yamlfile.NewScalar(text).Bool(); (wrong == "") != want || b != (text == "true") {
			t.Errorf("Bool %q: %v, %q", text, b, wrong)
		}
	}
}

func FuzzDecode(f *testing.F) {
	f.Add("listen: a\nlabels: {user: *}\n")
	f.Add("stores:\n- path: &x /x\n- path: *x\n  kepp: |\n    a\n")
	f.Add("stores: !000 ") // the library panics on it
	f.Fuzz(func(t *testing.T, text string) {
		_, d, err := decode(text)
		var e *yamlfile.Error
		if err != nil && (!errors.As(err, &e) || e.Reason == "") {
			t.Errorf("%v: want an *Error with a reason", err)
		}
		if e != nil {
			_ = e.Excerpt()
		}
		if d != nil {
			_ = d.At("stores[0].path", "wrong").Excerpt()
		}
	})
}

func TestAFieldThatReadsTextTakesWhatItReads(t *testing.T) {
	type limits struct {
		Bytes resource.Size `yaml:"bytes"`
	}
	for text, want := range map[string]resource.Size{"bytes: 2GiB\n": 2 << 30, "bytes: 2147483648\n": 2 << 30, "bytes: \"1KiB\"\n": 1024} {
		d, err := yamlfile.Parse("f.yaml", []byte(text))
		if err != nil {
			t.Fatal(err)
		}
		var l limits
		if err := d.Decode(&l); err != nil || l.Bytes != want {
			t.Errorf("%s: %d, %v", text, l.Bytes, err)
		}
	}
	d, err := yamlfile.Parse("f.yaml", []byte("bytes: 2 apples\n"))
	if err != nil {
		t.Fatal(err)
	}
	if err := d.Decode(&limits{}); err == nil || !strings.Contains(err.Error(), `f.yaml:1:8: bytes: "2 apples": want a size such as 4GiB`) {
		t.Errorf("got %v", err)
	}
}
