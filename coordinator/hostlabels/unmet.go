package hostlabels

import (
	"fmt"
	"strings"

	"github.com/bursar/bursar/internal/spelling"
	"github.com/bursar/bursar/label"
)

// Bounds of a text.
const (
	mostConditions = 3   // that are named
	mostValues     = 5   // of a label
	conditionBytes = 80  // of a condition
	valueBytes     = 40  // of a value
	textBytes      = 500 // of a text
)

// Unmet says why no host meets all conditions: which of them no host meets, and which values hosts
// have for its label; or that some host meets each one, but none meets all. There are conditions
// and hosts, and no host meets all conditions.
func (c *Census) Unmet(conditions []Condition) string {
	var parts []string
	unmet := 0
	for _, one := range conditions {
		if c.Meet(one) > 0 {
			continue
		}
		if unmet++; unmet <= mostConditions {
			parts = append(parts, one.unmetText(unmet == 1)+" ("+c.have(one.key)+")")
		}
	}
	if unmet == 0 {
		return c.apart(conditions)
	}
	return bounded(parts, unmet)
}

// apart says that some host meets each condition, but none meets all.
func (c *Census) apart(conditions []Condition) string {
	parts := make([]string, 0, mostConditions)
	for _, one := range conditions[:min(len(conditions), mostConditions)] {
		parts = append(parts, fmt.Sprintf("%s %s", counted(c.Meet(one)), one.metText()))
	}
	return "no host meets all conditions together: " + bounded(parts, len(conditions))
}

// Lacks names the conditions that a host with these labels does not meet, and the labels that it
// has instead: "zone=a (it has zone=b)". It is empty if the host meets all.
func Lacks(labels label.Set, conditions []Condition) string {
	var parts []string
	unmet := 0
	for _, one := range conditions {
		if one.holds(labels) {
			continue
		}
		if unmet++; unmet > mostConditions {
			continue
		}
		has := "it has no label " + one.key
		if value, found := labels.Get(one.key); found {
			has = "it has " + one.key + "=" + valueText(value)
		}
		text := one.shown()
		if one.avoid {
			text = "not " + text
		}
		parts = append(parts, text+" ("+has+")")
	}
	return bounded(parts, unmet)
}

// bounded puts the parts together, and says how many conditions were left out.
func bounded(parts []string, all int) string {
	text := strings.Join(parts, ", ")
	if more := all - len(parts); more > 0 {
		text = spelling.Cut(text, textBytes) + fmt.Sprintf(" and %d more conditions", more)
		if more == 1 {
			text = strings.TrimSuffix(text, "s")
		}
	}
	return spelling.Cut(text, textBytes+len(" and 99 more conditions"))
}

// have says which values hosts have of a label: "hosts have zone b, c and 4 more". If no host has
// the label, it says which labels there are.
func (c *Census) have(key string) string {
	values, more := c.commonest(key)
	if len(values) > 0 {
		return "hosts have " + key + " " + valueTexts(values, more)
	}
	text := "no host has a label " + key
	switch keys, more := c.keyNames(mostValues); {
	case len(keys) == 0:
		return text + " or any other"
	default:
		return text + ", but " + valueTexts(keys, more)
	}
}

func valueTexts(values []string, more int) string {
	texts := make([]string, len(values))
	for i, value := range values {
		texts[i] = valueText(value)
	}
	text := strings.Join(texts, ", ")
	if more > 0 {
		text += fmt.Sprintf(" and %d more", more)
	}
	return text
}

// valueText writes a value of somebody else so that its ends can be seen.
func valueText(value string) string {
	return spelling.Line(spelling.Name(spelling.Cut(value, valueBytes), ",()"), 2*valueBytes)
}

func (c *Condition) shown() string { return spelling.Line(c.text, conditionBytes) }

// unmetText says that no host meets the condition.
func (c *Condition) unmetText(first bool) string {
	switch {
	case c.avoid:
		return "every host has " + c.shown() + ", which is to be avoided"
	case first:
		return "no host meets " + c.shown()
	default:
		return "none meets " + c.shown()
	}
}

// metText goes on after a number of hosts.
func (c *Condition) metText() string {
	if c.avoid {
		return "without " + c.shown()
	}
	return "with " + c.shown()
}

func counted(hosts int) string {
	if hosts == 1 {
		return "1 host"
	}
	return fmt.Sprintf("%d hosts", hosts)
}
