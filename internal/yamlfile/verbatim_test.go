package yamlfile_test

import (
	"fmt"
	"strings"
	"testing"
	"unicode"

	"github.com/google/go-cmp/cmp"

	"github.com/bursar/bursar/internal/yamlfile"
	"github.com/bursar/bursar/resource"
)

type word string

type named struct {
	Name string `yaml:"name"`
}

// texts has every kind of place for a text.
type texts struct {
	Field   string            `yaml:"field"`
	Word    word              `yaml:"word"`
	Pointer *string           `yaml:"pointer"`
	List    []string          `yaml:"list"`
	Words   []word            `yaml:"words"`
	Values  map[string]string `yaml:"values"`
	Keys    map[word]word     `yaml:"keys"`
	Lists   map[string][]word `yaml:"lists"`
	Nested  struct {
		Inner *named  `yaml:"inner"`
		Items []named `yaml:"items"`
	} `yaml:"nested"`
	Aliased []string                   `yaml:"aliased"`
	Scalars map[string]yamlfile.Scalar `yaml:"scalars"`
	More    yamlfile.OneOrMore         `yaml:"more"`
}

// spellings returns values that YAML does not read as text, and some that it does.
func spellings() []string {
	return []string{
		"0660", "0600", "010", "007", "00", "0", "-0", "+5", "-010", "0x1F", "0o17", "0b101", "1_000", "1__0", "_1",
		"1.10", "3.10", "1.0", "0.50", ".5", "5.", "1e3", "1E3", "1e-3", "1.5e+3", "99999999999999999999", "1e999", "-1.0",
		"true", "True", "TRUE", "false", "yes", "no", "on", "off", "y", "n",
		".inf", "-.inf", ".Inf", ".NaN", ".nan", "inf", "nan",
		"2020-01-01", "4GiB", "a", "a b", "10.0.0.1", "1.2.3",
	}
}

func decodeTexts(t *testing.T, text string) (into texts) {
	t.Helper()
	d, err := yamlfile.Parse("x.yaml", []byte(text))
	if err == nil {
		err = d.Decode(&into)
	}
	if err != nil {
		t.Fatalf("%s\n%v", text, err)
	}
	return into
}

// everywhere returns a file with one value in every place, as written.
func everywhere(written string) string {
	return strings.ReplaceAll(`field: W
word: W # a comment
pointer: W
list: [W, W]
words:
- W
- W
values: {a: W}
keys:
  W: W
lists:
  ? W
  : [W]
nested:
  inner: {name: W}
  items:
  - name: W
  - &item {name: &name W}
  - *item
  - {<<: *item}
  - name: *name
aliased: [*name, &other W, *other]
scalars: {a: &scalar W, b: *name, c: *scalar}
more: [W, *name]
`, "W", written)
}

// expectEverywhere checks for a text in every place.
func expectEverywhere(t *testing.T, written, want string) {
	t.Helper()
	got := decodeTexts(t, everywhere(written))
	w := word(want)
	expected := texts{
		Field: want, Word: w, Pointer: &want, List: []string{want, want}, Words: []word{w, w}, Values: map[string]string{"a": want},
		Keys: map[word]word{w: w}, Lists: map[string][]word{want: {w}}, Aliased: []string{want, want, want},
		Scalars: map[string]yamlfile.Scalar{"a": yamlfile.NewScalar(want), "b": yamlfile.NewScalar(want), "c": yamlfile.NewScalar(want)},
		More:    yamlfile.OneOrMore{yamlfile.NewScalar(want), yamlfile.NewScalar(want)},
	}
	expected.Nested.Inner = &named{want}
	expected.Nested.Items = []named{{want}, {want}, {want}, {want}, {want}}
	if diff := cmp.Diff(expected, got, cmp.AllowUnexported(yamlfile.Scalar{})); diff != "" {
		t.Errorf("%s:\n%s", written, diff)
	}
}

func TestTextIsTakenAsItIsWritten(t *testing.T) {
	for _, spelling := range spellings() {
		expectEverywhere(t, spelling, spelling)
		expectEverywhere(t, `"`+spelling+`"`, spelling)
		expectEverywhere(t, `'`+spelling+`'`, spelling)
		expectEverywhere(t, "!!str "+spelling, spelling)
	}
	if got := decodeTexts(t, "field: 2020-01-01T12:00:00Z\nlist:\n- 2020-01-01 12:00:00\n- 190:20:30\n"); got.Field != "2020-01-01T12:00:00Z" || got.List[0] != "2020-01-01 12:00:00" || got.List[1] != "190:20:30" {
		t.Errorf("times: %+v", got)
	}
	expectEverywhere(t, `"0\t1\x41"`, "0\t1A")
	expectEverywhere(t, `'it''s'`, "it's")
	expectEverywhere(t, `"~"`, "~")
	expectEverywhere(t, `""`, "")
}

// A null leaves a field unset. A key, an item and the value of a free key are data: only an absent
// value after the colon is empty.
func TestNullIsNothingInAFieldAndItsTextInData(t *testing.T) {
	for _, null := range []string{"", "~", "null", "Null", "NULL"} {
		want := texts{
			List: []string{null, "b"}, Values: map[string]string{"a": null},
			Scalars: map[string]yamlfile.Scalar{"a": {}},
		}
		file := "field: W\nword: W\npointer: W\nnested: W\nlist:\n- W\n- b\nvalues:\n  a: W\nscalars:\n  a: W\n"
		if null != "" { // the library rejects it as a key
			want.Keys = map[word]word{word(null): "b"}
			file += "keys:\n  W: b\n"
		}
		got := decodeTexts(t, strings.ReplaceAll(file, "W", null))
		if diff := cmp.Diff(want, got, cmp.AllowUnexported(yamlfile.Scalar{})); diff != "" {
			t.Errorf("%q:\n%s", null, diff)
		}
	}
	if got := decodeTexts(t, "list: ~\nvalues: null\nkeys:\n"); got.List != nil || got.Values != nil || got.Keys != nil {
		t.Errorf("%+v", got)
	}
}

// An alias stands for the written text, whatever the field of its anchor has made of it.
func TestAnAliasOfANumberIsItsTextInAFieldOfText(t *testing.T) {
	var into struct {
		Count int           `yaml:"count"`
		Name  string        `yaml:"name"`
		Bytes resource.Size `yaml:"bytes"`
		On    bool          `yaml:"on"`
		Word  string        `yaml:"word"`
		Again int           `yaml:"again"`
	}
	d, err := yamlfile.Parse("x", []byte("count: &n 0x10\nname: *n\non: &b true\nword: *b\nbytes: &s 1_0\nagain: *n\n"))
	if err == nil {
		err = d.Decode(&into)
	}
	if err == nil || !strings.Contains(err.Error(), `x:5:11: bytes: "1_0": want a size`) {
		t.Errorf("a size with an anchor: %v", err)
	}
	if d, err = yamlfile.Parse("x", []byte("count: &n 0x10\nname: *n\non: &b true\nword: *b\nbytes: &s 010\nagain: *n\n")); err == nil {
		err = d.Decode(&into)
	}
	if err != nil || into.Count != 16 || into.Name != "0x10" || !into.On || into.Word != "true" || into.Bytes != 10 || into.Again != 16 {
		t.Errorf("%+v, %v", into, err)
	}
}

func TestAnAliasOfWhatItIsInIsRefused(t *testing.T) {
	for _, text := range []string{"list: &l [*l]", "nested: &n {inner: *n}", "nested: &n\n  <<: *n\n", "values: &v {a: b, <<: *v}", "field: *none", "list: [*none]"} {
		var into texts
		d, err := yamlfile.Parse("x", []byte(text))
		if err == nil {
			err = d.Decode(&into)
		}
		if err == nil || !strings.HasPrefix(err.Error(), "x:") {
			t.Errorf("%s: %v, want a place", text, err)
		}
	}
}

// A key that is no text is an unknown field like any other; the library would ignore all fields
// next to it.
func TestANumberIsAnUnknownField(t *testing.T) {
	for _, key := range []string{"5", "010", "true", "~", "1.5", "? 5\n"} {
		_, _, err := decode("listen: a\n" + key + ": b\n")
		if err == nil || !strings.Contains(err.Error(), ": unknown field") {
			t.Errorf("%s: %v", key, err)
		}
	}
}

func TestAWholeNumberWithAZeroBeforeItIsRefused(t *testing.T) {
	for _, text := range []string{"010", "-010", "0660", "'010'"} {
		var into struct {
			Count int `yaml:"count"`
		}
		d, err := yamlfile.Parse("x", []byte("count: "+text))
		if err == nil {
			err = d.Decode(&into)
		}
		if err == nil || !strings.Contains(err.Error(), "want a whole number without zeros before it") {
			t.Errorf("%s: %d, %v", text, into.Count, err)
		}
	}
}

// FuzzVerbatim writes a text without quotes. YAML may reject it, or read a list or map; a single
// value stays as written.
func FuzzVerbatim(f *testing.F) {
	for _, spelling := range spellings() {
		f.Add(spelling)
	}
	f.Fuzz(func(t *testing.T, text string) {
		plain := strings.IndexFunc(text, func(r rune) bool {
			return r > unicode.MaxASCII || !unicode.IsLetter(r) && !unicode.IsDigit(r) && !strings.ContainsRune("_+.", r)
		}) < 0
		if !plain || text == "" {
			return
		}
		into := decodeTexts(t, fmt.Sprintf("values: {%[1]s: %[1]s}\nlist: [%[1]s]\nlists:\n  %[1]s:\n  - %[1]s\n", text))
		want := texts{Values: map[string]string{text: text}, List: []string{text}, Lists: map[string][]word{text: {word(text)}}}
		if diff := cmp.Diff(want, into, cmp.AllowUnexported(yamlfile.Scalar{})); diff != "" {
			t.Error(diff)
		}
	})
}
