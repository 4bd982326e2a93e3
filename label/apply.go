package label

import (
	"slices"
	"strconv"
	"strings"
)

// Apply returns the labels that decide. The errors are *ClaimError, and *FieldError for labels that
// contradict each other, are unknown, are required and missing, or became malformed.
//
// To apply the rules to their own result changes nothing. Apply does not check the set itself, see
// FromMap. The result has no labels with an empty value. Only the label user must not come with an
// empty value: that is more likely an unset variable than a wish.
func (p *Preprocessor) Apply(set Set) (Set, error) { return p.ApplyFor(set, "") }

// ApplyFor is Apply for a caller that may act as this user only. If no label and no default names
// another user, the request is for that user. A derived user stays. An empty user is like Apply.
func (p *Preprocessor) ApplyFor(set Set, user string) (Set, error) {
	out, _, err := p.ApplyCharged(set, user, "")
	return out, err
}

// ApplyCharged is ApplyFor for a caller with another payer. If the request is for the caller's own
// user, the label user becomes the charged user, before labels are derived from it, and acts is
// true. A request for another user stays unchanged: the caller has no right to it. With an error,
// acts has no meaning.
func (p *Preprocessor) ApplyCharged(set Set, user, charged string) (out Set, acts bool, err error) {
	if p == nil {
		p = &Preprocessor{}
	}
	if out, err = p.convertKnown(set); err != nil {
		return nil, acts, err
	}
	charge := func() {
		if charged != "" && user != "" && out.Value(User) == user {
			out, acts = out.With(User, charged), true
		}
	}
	for _, l := range p.defaults {
		if out.Value(l.Key) == "" {
			out = out.With(l.Key, l.Value)
		}
	}
	if user != "" && out.Value(User) == "" && !p.derives(User) {
		out = out.With(User, p.convert(User, user))
	}
	if !p.derives(User) {
		charge()
	}
	for _, d := range p.derived {
		value := p.convert(d.Key, d.derive(out))
		if claimed := out.Value(d.Key); claimed != "" && claimed != value {
			return nil, acts, &ClaimError{Key: d.Key, Claimed: claimed, Derived: value}
		}
		if value == "" {
			continue
		}
		if value == Any {
			return nil, acts, &FieldError{field(d.Key), value, "a value other than *, which stands for all of them"}
		}
		if err := checkValue(d.Key, value); err != nil {
			return nil, acts, err
		}
		out = out.With(d.Key, value)
	}
	for _, key := range p.required {
		if out.Value(key) == "" {
			return nil, acts, &FieldError{field(key), "", "a value: this label is required"}
		}
	}
	charge() // if a rule has derived it
	return out, acts, nil
}

// convertAll applies the aliases and drops empty values.
func (p *Preprocessor) convertAll(set Set) (Set, error) {
	if !slices.ContainsFunc(set, p.concerns) {
		return set, nil
	}
	var out Set
	for _, l := range set {
		key, value := l.Key, l.Value
		if to := p.keys[key]; to != "" {
			key = to
		}
		if key == User && value == "" {
			return nil, &FieldError{field(l.Key), "", "the name of a user: is a variable such as $USER not set?"}
		}
		value = p.convert(key, value)
		switch other := out.Value(key); {
		case value == "" || value == other:
			continue
		case value == Any:
			return nil, &FieldError{field(l.Key), value, "a value other than *, which stands for all of them"}
		case other != "":
			return nil, &FieldError{field(l.Key), l.Value, "the same as another label that also stands for " + key + ", " + strconv.Quote(other)}
		}
		out = out.With(key, value)
	}
	return out, nil
}

// derives reports whether a rule derives the label from others.
func (p *Preprocessor) derives(key string) bool {
	return slices.ContainsFunc(p.derived, func(d derivation) bool { return d.Key == key })
}

// concerns reports whether convertAll must change the label.
func (p *Preprocessor) concerns(l Label) bool {
	return l.Value == "" || l.Value == Any || p.keys[l.Key] != "" || p.convert(l.Key, l.Value) != l.Value
}

// convert returns the value that replaces this one.
func (p *Preprocessor) convert(key, value string) string {
	if to, found := p.values[key][value]; found {
		return to
	}
	return value
}

// derive returns the derived value, "" for none.
func (d derivation) derive(set Set) string {
	value, ok := "", false
	switch {
	case d.template != nil:
		value, ok = d.template.expand(func(key string) string { return set.Value(key) })
	case d.From != "":
		value, ok = d.lookUp(set.Value(d.From))
	}
	if !ok {
		return d.Default
	}
	return value
}

func (d derivation) lookUp(from string) (string, bool) {
	if from == "" {
		return "", false
	}
	if value, found := d.Values[from]; found {
		return value, true
	}
	for _, p := range d.patterns {
		if p.expression == nil {
			if strings.HasPrefix(from, p.prefix) {
				return p.value.expand(nil)
			}
			continue
		}
		if groups := p.expression.FindStringSubmatch(from); groups != nil {
			return p.value.expand(func(name string) string { return groups[groupIndex(p.expression.SubexpIndex(name), name)] })
		}
	}
	return "", false
}

// groupIndex returns the index of a group by its number, or by its name if named is not negative.
func groupIndex(named int, name string) int {
	if named >= 0 {
		return named
	}
	index, err := strconv.Atoi(name)
	if err != nil {
		return 0 // impossible: compilePattern has checked the names
	}
	return index
}
