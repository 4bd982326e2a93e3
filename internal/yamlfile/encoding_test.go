package yamlfile_test

import (
	"strings"
	"testing"
	"unicode/utf16"
)

// utf16Of returns a text in little-endian UTF-16.
func utf16Of(text string) string {
	var b strings.Builder
	for _, unit := range utf16.Encode([]rune(text)) {
		b.WriteByte(byte(unit))
		b.WriteByte(byte(unit >> 8))
	}
	return b.String()
}

func TestWhatIsNotUTF8IsRefusedAtItsPlace(t *testing.T) {
	for name, c := range map[string]struct{ text, want string }{
		"Latin-1 in a value":          {"listen: a\nlabels: {user: j\xfcrgen}\n", "server.yaml:2:17: not UTF-8: "},
		"Latin-1 in a key":            {"labels: {gr\xfc\xdfe: a}\n", "server.yaml:1:12: not UTF-8: "},
		"Latin-1 in a comment":        {"# f\xfcr alle\nlisten: a\n", "server.yaml:1:4: not UTF-8: "},
		"after what is UTF-8":         {"listen: jürgen-j\xfcrgen\n", "server.yaml:1:17: not UTF-8: "},
		"a character that is cut off": {"listen: j\xc3", "server.yaml:1:10: not UTF-8: "},
		"a surrogate":                 {"listen: \xed\xa0\x80\n", "server.yaml:1:9: not UTF-8: "},
		"UTF-16 with its mark":        {"\xff\xfe" + utf16Of("listen: a\n"), "server.yaml:1:1: UTF-16: want UTF-8"},
		"UTF-16, the other way":       {"\xfe\xff\x00l\x00i", "server.yaml:1:1: UTF-16: want UTF-8"},
		"UTF-16 without a mark":       {utf16Of("listen: a\n"), "server.yaml:1:1: UTF-16: want UTF-8"},
		"a NUL byte":                  {"listen: a\nlabels: {user: a\x00b}\n", "server.yaml:2:17: a NUL byte: want text"},
		"an escape that is too large": {`listen: "j\U00110000rgen"`, "server.yaml:1:9: an escape for which there is no character"},
	} {
		s, _, err := decode(c.text)
		if err == nil || !strings.HasPrefix(err.Error(), c.want) {
			t.Errorf("%s: %v, read as %q: want %s", name, err, s.Listen.String(), c.want)
		}
	}
}

func TestAByteOrderMarkIsNoPartOfTheFirstField(t *testing.T) {
	s, d, err := decode("\ufefflisten: jürgen\n")
	if err != nil || s.Listen.String() != "jürgen" {
		t.Fatalf("%q, %v", s.Listen.String(), err)
	}
	want := "server.yaml:1:9: listen: taken\n    1 | listen: jürgen\n      |         ^\n"
	if e := d.At("listen", "taken"); e.Error()+"\n"+e.Excerpt() != want {
		t.Errorf("%v\n%s", e, e.Excerpt())
	}
}

func TestCharactersThatAreWrittenAsEscapesStay(t *testing.T) {
	for text, want := range map[string]string{
		`listen: "j\xfcrgen"`: "jürgen", `listen: "\uFFFD"`: "\ufffd", `listen: "\U0001F600"`: "😀", "listen: \"\ufffd\"": "\ufffd",
	} {
		if s, _, err := decode(text); err != nil || s.Listen.String() != want {
			t.Errorf("%s: %q, %v", text, s.Listen.String(), err)
		}
	}
}
