package label

import (
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/bursar/bursar/internal/spelling"
)

// Rule is one condition on the labels of a host, in the syntax of Kubernetes' label selectors:
// "zone in (a,b)", "zone notin (a,b)", "zone=a", "zone!=a", "gpu", "!gpu", "cores>8", "cores<8". As
// there, notin and != also hold without the label, and > and < compare whole numbers. The zero Rule
// holds always.
type Rule struct {
	text     string
	key      string
	operator operator
	values   []string
	number   int64
}

type operator uint8

const (
	always operator = iota
	in
	notIn
	exists
	absent
	greater
	less
)

// wantedRule describes the correct form of a rule.
const wantedRule = `a condition such as zone=a, zone!=a, zone in (a, b), zone notin (a, b), gpu, !gpu, cores>8 or cores<8`

// MaxRuleValues bounds the values of a rule, and those of all rules of a request together: each is
// compared with the label of each host.
const MaxRuleValues = 64

// ParseRules reads rules with commas between them. A value in double quotes may contain any
// character, as in Parse. The errors are *FieldError.
func ParseRules(text string) (rules []Rule, err error) {
	for rest, more := text, true; more; {
		var one string
		if one, rest, more, err = cutRule(rest); err != nil {
			return nil, err
		}
		rule, err := ParseRule(one)
		if err != nil {
			return nil, err
		}
		rules = append(rules, rule)
	}
	return rules, nil
}

// cutRule cuts a text at the first comma outside of brackets and quotes.
func cutRule(text string) (first, rest string, more bool, err error) {
	depth := 0
	for i := 0; i < len(text); i++ {
		switch text[i] {
		case '"':
			_, behind, ok := spelling.Unquote(text[i:])
			if !ok {
				return "", "", false, wrongRule(text)
			}
			i = len(text) - len(behind) - 1
		case '(':
			depth++
		case ')':
			depth--
		case ',':
			if depth == 0 {
				return text[:i], text[i+1:], true, nil
			}
		}
	}
	return text, "", false, nil
}

func wrongRule(text string) *FieldError { return &FieldError{"rule", text, wantedRule} }

// ParseRule reads one rule.
func ParseRule(text string) (Rule, error) {
	trimmed := strings.TrimSpace(text)
	r, rest := Rule{}, trimmed
	if behind, negated := strings.CutPrefix(trimmed, "!"); negated {
		r.operator, r.key = absent, strings.TrimSpace(behind)
		return r.checked(text)
	}
	end := strings.IndexAny(rest, " \t=!<>(")
	if end < 0 {
		r.operator, r.key = exists, rest
		return r.checked(text)
	}
	r.key, rest = rest[:end], strings.TrimSpace(rest[end:])
	word, behind, _ := strings.Cut(rest, "(")
	switch strings.Join(strings.Fields(word), " ") {
	case "in":
		r.operator = in
	case "notin", "not in":
		r.operator = notIn
	}
	if r.operator != always {
		var ok bool
		if r.values, ok = values("(" + behind); !ok || !strings.Contains(rest, "(") {
			return r, wrongRule(text)
		}
		if n := len(r.values); n > MaxRuleValues {
			return r, &FieldError{"rule", text, fmt.Sprintf("at most %d values, not %d", MaxRuleValues, n)}
		}
		return r.checked(text)
	}
	for _, sign := range []struct {
		text     string
		operator operator
	}{{"==", in}, {"!=", notIn}, {"=", in}, {">", greater}, {"<", less}} {
		behind, found := strings.CutPrefix(rest, sign.text)
		if !found {
			continue
		}
		value, given, ok := oneValue(behind)
		if !ok || sign.operator != in && !given {
			return r, wrongRule(text)
		}
		r.operator, r.values = sign.operator, []string{value}
		return r.checked(text)
	}
	return r, wrongRule(text)
}

// oneValue reads a value to the end of a text. given says that there is one, which may be "" in
// quotes.
func oneValue(text string) (value string, given, ok bool) {
	text = strings.TrimSpace(text)
	value, rest, quoted, ok := spelling.CutName(text, ",()")
	return value, value != "" || quoted, ok && strings.TrimSpace(rest) == "" && (quoted || !strings.ContainsAny(value, `"=<>!`))
}

// values reads "(a, b)".
func values(text string) (list []string, ok bool) {
	rest := strings.TrimPrefix(text, "(")
	for {
		value, behind, quoted, ok := spelling.CutName(strings.TrimLeft(rest, " "), ",)")
		if !quoted {
			value = strings.TrimRight(value, " ")
		}
		if !ok || value == "" && !quoted || behind == "" {
			return nil, false
		}
		list = append(list, value)
		if rest = behind[1:]; behind[0] == ')' {
			return list, strings.TrimSpace(rest) == ""
		}
	}
}

// checked checks the parts of a rule, and sets its text.
func (r Rule) checked(text string) (Rule, error) {
	if err := checkKey(r.key); err != nil {
		return Rule{}, &FieldError{"rule", text, wantedRule + "; the key has " + strings.TrimPrefix(err.Want, "as key ")}
	}
	for _, value := range r.values {
		if err := checkValue(r.key, value); err != nil {
			return Rule{}, &FieldError{"rule", text, err.Want}
		}
	}
	if r.operator == greater || r.operator == less {
		number, err := strconv.ParseInt(r.values[0], 10, 64)
		if err != nil {
			return Rule{}, &FieldError{"rule", text, "a whole number behind > or <, such as cores>8"}
		}
		r.number = number
	}
	slices.Sort(r.values)
	r.values = slices.Compact(r.values)
	r.text = r.format()
	return r, nil
}

func (r Rule) format() string {
	shown := make([]string, len(r.values))
	for i, value := range r.values {
		if shown[i] = spelling.Name(value, ",()"); value == "" || strings.ContainsAny(value, `"=<>! `) {
			shown[i] = spelling.Quote(value)
		}
	}
	switch r.operator {
	case exists:
		return r.key
	case absent:
		return "!" + r.key
	case greater:
		return fmt.Sprintf("%s>%d", r.key, r.number)
	case less:
		return fmt.Sprintf("%s<%d", r.key, r.number)
	case in, notIn:
		sign, word := "=", " in ("
		if r.operator == notIn {
			sign, word = "!=", " notin ("
		}
		if len(shown) == 1 {
			return r.key + sign + shown[0]
		}
		return r.key + word + strings.Join(shown, ",") + ")"
	case always:
	}
	return ""
}

// String returns the rule in the form of ParseRule. Two rules with the same meaning have the same
// text, apart from the ways to write numbers.
func (r Rule) String() string { return r.text }

// CountValues counts the values that rules compare with the labels of a host.
func CountValues(rules ...Rule) int {
	n := 0
	for _, r := range rules {
		n += len(r.values)
	}
	return n
}

// Equal reports whether both rules have the same text.
func (r Rule) Equal(other Rule) bool { return r.text == other.text }

// Single returns the key and the value of a rule that accepts one value; ok is false for all
// others.
func (r Rule) Single() (key, value string, ok bool) {
	if r.operator != in || len(r.values) != 1 {
		return "", "", false
	}
	return r.key, r.values[0], true
}

// Key is the label key of the rule; empty for the zero Rule.
func (r Rule) Key() string { return r.key }

// Values are the values of "in" and "notin", in order; nil for the other forms. The caller must not
// change them.
func (r Rule) Values() []string {
	if r.operator != in && r.operator != notIn {
		return nil
	}
	return r.values
}

// Numeric reports whether the rule compares numbers: it may say something else of each value.
func (r Rule) Numeric() bool { return r.operator == greater || r.operator == less }

// Holds reports whether a host with these labels satisfies the rule.
func (r Rule) Holds(set Set) bool {
	value, found := set.Get(r.key)
	return r.HoldsFor(value, found)
}

// HoldsFor is Holds for a host whose label of the rule's key has this value, or, if found is false,
// that lacks the label.
func (r Rule) HoldsFor(value string, found bool) bool {
	switch r.operator {
	case in:
		return found && slices.Contains(r.values, value)
	case notIn:
		return !found || !slices.Contains(r.values, value)
	case exists:
		return found
	case absent:
		return !found
	case greater, less:
		number, err := strconv.ParseInt(value, 10, 64)
		return found && err == nil && (r.operator == greater && number > r.number || r.operator == less && number < r.number)
	case always:
	}
	return true
}
