package label

import "strings"

// template is a parsed text with names, as literals and names in order.
type template []piece

type piece struct{ literal, name string }

// parseTemplate reads "${user}-${creator}". "$$" is a dollar sign.
func parseTemplate(at, text string) (template, error) {
	wrong := &FieldError{at, text, "names as ${name}, and $$ for a dollar sign"}
	var (
		t       template
		literal strings.Builder
	)
	for rest := text; rest != ""; {
		before, after, found := strings.Cut(rest, "$")
		literal.WriteString(before)
		if !found {
			break
		}
		if left, dollar := strings.CutPrefix(after, "$"); dollar {
			literal.WriteByte('$')
			rest = left
			continue
		}
		name, left, closed := strings.Cut(after, "}")
		name, opened := strings.CutPrefix(name, "{")
		if !opened || !closed || name == "" {
			return nil, wrong
		}
		t = append(t, piece{literal.String(), name})
		literal.Reset()
		rest = left
	}
	return append(t, piece{literal: literal.String()}), nil
}

// names returns the names in the template.
func (t template) names() []string {
	var names []string
	for _, p := range t {
		if p.name != "" {
			names = append(names, p.name)
		}
	}
	return names
}

// expand replaces the names by values; false if one of them is empty.
func (t template) expand(value func(name string) string) (string, bool) {
	var b strings.Builder
	for _, p := range t {
		b.WriteString(p.literal)
		if p.name == "" {
			continue
		}
		v := value(p.name)
		if v == "" {
			return "", false
		}
		b.WriteString(v)
	}
	return b.String(), true
}
