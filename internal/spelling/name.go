package spelling

import (
	"strings"
	"unicode"
)

// On the command line and in all output, bursar writes a name plainly, or in double quotes if it
// could not be read back otherwise: see Name and CutName.

// Name writes a name so that CutName reads it back with the same stops, and so that its ends and
// all of its characters are visible.
func Name(name, stops string) string {
	if plain(name, stops) {
		return name
	}
	return Quote(name)
}

// plain reports whether a name needs no quotes.
func plain(name, stops string) bool {
	return name == strings.TrimSpace(name) && !strings.HasPrefix(name, `"`) && !strings.ContainsAny(name, stops) && !strings.ContainsFunc(name, Unseen)
}

// CutName reads the name at the beginning of a text, up to the first of the stops or to the end. A
// quoted name ends with its closing quote: ok is false if that is missing, or if it is followed by
// anything but blanks or a stop. Other names are taken literally. rest begins with the stop.
func CutName(text, stops string) (name, rest string, quoted, ok bool) {
	if !strings.HasPrefix(text, `"`) {
		if i := strings.IndexAny(text, stops); i >= 0 {
			return text[:i], text[i:], false, true
		}
		return text, "", false, true
	}
	if name, rest, ok = Unquote(text); !ok {
		return "", "", true, false
	}
	rest = strings.TrimLeftFunc(rest, unicode.IsSpace)
	return name, rest, true, rest == "" || strings.ContainsRune(stops, rune(rest[0]))
}

// Shell writes a word so that a shell reads it back: plainly, or in single quotes.
func Shell(word string) string {
	safe := func(r rune) bool {
		return r > unicode.MaxASCII && !Unseen(r) || 'a' <= r && r <= 'z' || 'A' <= r && r <= 'Z' || '0' <= r && r <= '9' || strings.ContainsRune("_-./:=@,+%", r)
	}
	if word != "" && !strings.ContainsFunc(word, func(r rune) bool { return !safe(r) }) {
		return word
	}
	return "'" + strings.ReplaceAll(word, "'", `'\''`) + "'"
}
