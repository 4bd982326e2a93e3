package label

import "strings"

// Selector is a set of labels whose values are exact or "*". Its keys are its scope. The zero
// Selector matches everything.
type Selector struct {
	labels Set
	scope  Scope
	exact  int
}

// NewSelector returns a selector of these labels. The error is a *FieldError.
func NewSelector(labels map[string]string) (Selector, error) {
	set, err := FromMap(labels)
	if err != nil {
		return Selector{}, err
	}
	return newSelector(set), nil
}

// ParseSelector reads "user=alice,creator=*" in the form of Parse, and "*" alone as the selector
// without labels, which matches everything. It refuses the empty text, which is more likely a
// mistake than a rule for all. The error is a *FieldError.
func ParseSelector(text string) (Selector, error) {
	switch strings.Trim(text, " ") {
	case Any:
		return Selector{}, nil
	case "":
		return Selector{}, &FieldError{"selector", text, `labels such as user=alice,creator=*, or "*" for everything`}
	}
	set, err := Parse(text)
	if err != nil {
		return Selector{}, err
	}
	return newSelector(set), nil
}

func newSelector(set Set) Selector {
	s := Selector{labels: set}
	keys := make([]string, len(set))
	for i, l := range set {
		keys[i] = l.Key
		if l.Value != Any {
			s.exact++
		}
	}
	s.scope = NewScope(keys...)
	return s
}

// CheckValues refuses a value with a "*" next to other characters. Its author means a pattern, but
// there are none: it would match this exact value only. Stored rules may have one. The error is a
// *FieldError.
func (s Selector) CheckValues() error {
	for _, l := range s.labels {
		if l.Value != Any && strings.Contains(l.Value, Any) {
			return &FieldError{field(l.Key), l.Value, `"*" alone, which is one account for each value, or one value exactly: there are no patterns`}
		}
	}
	return nil
}

// Text returns the selector in the form of ParseSelector.
func (s Selector) Text() string {
	if len(s.labels) == 0 {
		return Any
	}
	return s.labels.Text()
}

// String is the key of the selector, in the form of its labels' key; "*" for no labels.
func (s Selector) String() string {
	if len(s.labels) == 0 {
		return Any
	}
	return s.labels.String()
}

// Scope returns the selector's keys.
func (s Selector) Scope() Scope { return s.scope }

// Labels returns the pairs, including those with "*".
func (s Selector) Labels() Set { return s.labels }

// Exact returns the number of values that are not "*": of two rules for one scope the one with more
// is more specific.
func (s Selector) Exact() int { return s.exact }

// Equal reports whether both selectors have the same labels.
func (s Selector) Equal(t Selector) bool { return s.labels.Equal(t.labels) }

// Matches reports whether the set has every exact value. A missing label has the empty value, which
// "*" matches: a caller never escapes a rule by leaving a label out.
func (s Selector) Matches(set Set) bool {
	i := 0
	for _, want := range s.labels {
		if want.Value == Any {
			continue
		}
		for i < len(set) && set[i].Key < want.Key {
			i++
		}
		value := ""
		if i < len(set) && set[i].Key == want.Key {
			value = set[i].Value
		}
		if value != want.Value {
			return false
		}
	}
	return true
}

// Overlaps reports whether both selectors have the same scope and some set of labels matches both.
func (s Selector) Overlaps(t Selector) bool {
	if len(s.labels) != len(t.labels) {
		return false
	}
	for i, a := range s.labels {
		b := t.labels[i]
		if a.Key != b.Key || a.Value != b.Value && a.Value != Any && b.Value != Any {
			return false
		}
	}
	return true
}
