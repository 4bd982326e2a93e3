package label

import (
	"fmt"
	"maps"
	"regexp"
	"slices"
)

// Preprocessor is compiled rules. The zero Preprocessor and the nil one have no rules.
type Preprocessor struct {
	keys     map[string]string            // an alias -> its key
	values   map[string]map[string]string // key -> an alias of a value -> the value
	defaults Set
	derived  []derivation
	required []string
	known    []string // sorted; nil: any key is
}

type derivation struct {
	Derivation
	patterns []pattern
	template template
}

type pattern struct {
	prefix     string
	expression *regexp.Regexp // nil: the prefix decides
	value      template
}

// Compile checks the rules as a whole. The error is a *FieldError that names the rule.
func (r Rules) Compile() (*Preprocessor, error) {
	p := &Preprocessor{
		keys:     make(map[string]string),
		values:   make(map[string]map[string]string),
		required: slices.Clone(r.Required),
	}
	if err := p.compileAliases(r.Aliases); err != nil {
		return nil, err
	}
	for _, key := range slices.Sorted(maps.Keys(r.Defaults)) {
		at, value := "defaults["+key+"]", r.Defaults[key]
		if err := p.checkKey(at, key); err != nil {
			return nil, err
		}
		if err := checkResult(at, value); err != nil {
			return nil, err
		}
		p.defaults = p.defaults.With(key, p.convert(key, value))
	}
	if err := p.compileDerived(r.Derived); err != nil {
		return nil, err
	}
	for i, key := range r.Required {
		if err := p.checkKey(fmt.Sprintf("required[%d]", i), key); err != nil {
			return nil, err
		}
	}
	return p, nil
}

func (p *Preprocessor) compileAliases(aliases []Alias) error {
	for i, a := range aliases {
		at := fmt.Sprintf("aliases[%d]", i)
		if err := checkKey(a.Key); err != nil {
			return &FieldError{at + ".key", a.Key, err.Want}
		}
		if _, again := p.values[a.Key]; again {
			return &FieldError{at + ".key", a.Key, "each key once"}
		}
		p.values[a.Key] = maps.Clone(a.Values)
		for _, other := range a.Keys {
			if err := checkKey(other); err != nil {
				return &FieldError{at + ".keys", other, err.Want}
			}
			if p.keys[other] != "" {
				return &FieldError{at + ".keys", other, "each key once"}
			}
			p.keys[other] = a.Key
		}
		for _, other := range slices.Sorted(maps.Keys(a.Values)) {
			field, value := at+".values["+other+"]", a.Values[other]
			if _, again := a.Values[value]; again {
				return &FieldError{field, value, "a value that is not converted itself"}
			}
			if err := checkResult(field, value); err != nil {
				return err
			}
		}
	}
	for i, a := range aliases {
		if err := p.checkKey(fmt.Sprintf("aliases[%d].key", i), a.Key); err != nil {
			return err
		}
	}
	return nil
}

func (p *Preprocessor) compileDerived(derived []Derivation) error {
	pending := make(map[string]bool) // keys that a derivation must not use yet
	for i, d := range derived {
		at := fmt.Sprintf("derived[%d].key", i)
		if err := p.checkKey(at, d.Key); err != nil {
			return err
		}
		if pending[d.Key] {
			return &FieldError{at, d.Key, "each key once"}
		}
		if p.defaults.Has(d.Key) {
			return &FieldError{at, d.Key, `a key without an entry in "defaults": its default stands with its derivation`}
		}
		pending[d.Key] = true
	}
	for i, d := range derived {
		at := fmt.Sprintf("derived[%d]", i)
		compiled, err := compileDerivation(at, d)
		if err != nil {
			return err
		}
		for _, key := range compiled.sources() {
			if err := p.checkKey(at, key); err != nil {
				return err
			}
			if pending[key] {
				return &FieldError{at, key, "labels that are not derived, or by an earlier entry"}
			}
		}
		p.derived = append(p.derived, compiled)
		delete(pending, d.Key)
	}
	return nil
}

// sources returns the labels that the derivation reads.
func (d derivation) sources() []string {
	if d.From != "" {
		return []string{d.From}
	}
	return d.template.names()
}

func compileDerivation(at string, d Derivation) (derivation, error) {
	compiled := derivation{Derivation: d}
	looksUp := len(d.Values)+len(d.Patterns) > 0
	switch {
	case d.Template != "" && (looksUp || d.From != ""):
		return compiled, &FieldError{at, d.Key, `either "template", or "from" with "values" and "patterns"`}
	case looksUp != (d.From != ""):
		return compiled, &FieldError{at, d.Key, `"from" together with "values" or "patterns"`}
	case !looksUp && d.Template == "" && d.Default == "":
		return compiled, &FieldError{at, d.Key, `"from", "template" or "default"`}
	}
	for _, value := range slices.Sorted(maps.Keys(d.Values)) {
		if err := checkResult(at+".values["+value+"]", d.Values[value]); err != nil {
			return compiled, err
		}
	}
	for i, source := range d.Patterns {
		p, err := compilePattern(fmt.Sprintf("%s.patterns[%d]", at, i), source)
		if err != nil {
			return compiled, err
		}
		compiled.patterns = append(compiled.patterns, p)
	}
	if d.Template != "" {
		var err error
		if compiled.template, err = parseTemplate(at+".template", d.Template); err != nil {
			return compiled, err
		}
	}
	if d.Default != "" {
		if err := checkResult(at+".default", d.Default); err != nil {
			return compiled, err
		}
	}
	return compiled, nil
}

func compilePattern(at string, source Pattern) (pattern, error) {
	p := pattern{prefix: source.Prefix}
	if (source.Prefix == "") == (source.Match == "") {
		return p, &FieldError{at, source.Prefix + source.Match, `either "prefix" or "match"`}
	}
	if err := checkResult(at+".value", source.Value); err != nil {
		return p, err
	}
	groups := []string{}
	if source.Match != "" {
		// alone, so that the message shows the written expression
		if _, err := regexp.Compile(source.Match); err != nil {
			return p, &FieldError{at + ".match", source.Match, "a regular expression: " + err.Error()}
		}
		expression, err := regexp.Compile(`^(?:` + source.Match + `)$`)
		if err != nil {
			return p, &FieldError{at + ".match", source.Match, "a regular expression: " + err.Error()}
		}
		p.expression = expression
		for i, name := range expression.SubexpNames() {
			groups = append(groups, fmt.Sprint(i))
			if name != "" {
				groups = append(groups, name)
			}
		}
	}
	var err error
	if p.value, err = parseTemplate(at+".value", source.Value); err != nil {
		return p, err
	}
	for _, name := range p.value.names() {
		if !slices.Contains(groups, name) {
			return p, &FieldError{at + ".value", source.Value, `only groups that "match" captures, ${1} or ${name}`}
		}
	}
	return p, nil
}

// checkKey returns nil for a valid key that is not converted to another one.
func (p *Preprocessor) checkKey(at, key string) error {
	if err := checkKey(key); err != nil {
		return &FieldError{at, key, err.Want}
	}
	if to := p.keys[key]; to != "" {
		return &FieldError{at, key, to + ", of which this key is an alias"}
	}
	return nil
}

// checkResult returns nil for a value that a rule may give to a label.
func checkResult(at, value string) error {
	if value == "" || value == Any {
		return &FieldError{at, value, "a value, not empty and not *"}
	}
	if err := checkValue("", value); err != nil {
		return &FieldError{at, value, err.Want}
	}
	return nil
}
