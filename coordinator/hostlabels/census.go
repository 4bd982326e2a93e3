package hostlabels

import (
	"cmp"
	"slices"

	"github.com/bursar/bursar/label"
)

// Census counts the hosts of a fleet by their labels. The zero Census has no hosts.
type Census struct {
	hosts int
	keys  map[string]*column
}

// column counts the hosts that have a label of one key.
type column struct {
	hosts  int
	values map[string]int // hosts by value
	common []string       // see commonest; nil: not known since a host has changed
}

// Add counts a host with these labels.
func (c *Census) Add(labels label.Set) {
	c.hosts++
	for _, l := range labels {
		of := c.keys[l.Key]
		if of == nil {
			if c.keys == nil {
				c.keys = make(map[string]*column)
			}
			of = &column{values: make(map[string]int)}
			c.keys[l.Key] = of
		}
		of.hosts++
		of.values[l.Value]++
		of.common = nil
	}
}

// Remove takes out a host that was added with these labels.
func (c *Census) Remove(labels label.Set) {
	c.hosts--
	for _, l := range labels {
		of := c.keys[l.Key]
		of.common = nil
		if of.hosts--; of.hosts == 0 {
			delete(c.keys, l.Key)
			continue
		}
		if of.values[l.Value]--; of.values[l.Value] == 0 {
			delete(of.values, l.Value)
		}
	}
}

// Meet counts the hosts that meet a condition. Unless that compares numbers, it looks up the values
// that the condition names.
func (c *Census) Meet(condition Condition) int {
	if condition.plain {
		of := c.column(condition.key)
		if condition.value == label.Any {
			return of.hosts
		}
		return of.values[condition.value]
	}
	n := c.holding(&condition.rule)
	if condition.avoid {
		return c.hosts - n
	}
	return n
}

// holding counts the hosts for which a rule holds.
func (c *Census) holding(rule *label.Rule) (n int) {
	of := c.column(rule.Key())
	if rule.HoldsFor("", false) {
		n = c.hosts - of.hosts
	}
	if rule.Numeric() {
		for value, hosts := range of.values {
			if rule.HoldsFor(value, true) {
				n += hosts
			}
		}
		return n
	}
	named := 0
	for _, value := range rule.Values() {
		named += of.values[value]
	}
	switch values := rule.Values(); {
	case len(values) == 0: // it says the same of every value
		if rule.HoldsFor("", true) {
			n += of.hosts
		}
	case rule.HoldsFor(values[0], true): // and here of every value that it names
		n += named
	default:
		n += of.hosts - named
	}
	return n
}

// mostCompared is how many values of a label MayHold compares.
const mostCompared = 256

// MayHold reports whether the rule holds for a host, or, if it is not wanted, does not hold for
// one. It is exact unless the rule compares numbers, and more than mostCompared values of the label
// are on the wrong side: then it is true. It allocates nothing.
func (c *Census) MayHold(rule *label.Rule, wanted bool) bool {
	of := c.column(rule.Key())
	switch {
	case of.hosts < c.hosts && rule.HoldsFor("", false) == wanted:
		return true
	case !rule.Numeric():
		n := c.holding(rule)
		return wanted && n > 0 || !wanted && n < c.hosts
	}
	compared := 0
	for value := range of.values { // in any order: the answer is the same
		if rule.HoldsFor(value, true) == wanted || compared == mostCompared {
			return true
		}
		compared++
	}
	return false
}

func (c *Census) column(key string) column {
	if of := c.keys[key]; of != nil {
		return *of
	}
	return column{}
}

// commonest returns the values of a label that most hosts have, at most mostValues, in their order.
// more is how many values were left out.
func (c *Census) commonest(key string) (values []string, more int) {
	of := c.keys[key]
	if of == nil {
		return nil, 0
	}
	if of.common == nil {
		of.common, _ = first(of.values, mostValues, func(a, b string) int {
			return cmp.Or(cmp.Compare(of.values[b], of.values[a]), cmp.Compare(a, b))
		})
		slices.Sort(of.common)
	}
	return of.common, len(of.values) - len(of.common)
}

// keyNames returns at most so many keys that hosts have labels of, in their order.
func (c *Census) keyNames(most int) (keys []string, more int) {
	return first(c.keys, most, cmp.Compare[string])
}

// first returns the first keys of a map, and how many others there are. There may be many.
func first[V any](of map[string]V, most int, compare func(a, b string) int) (keys []string, more int) {
	for key := range of {
		at, _ := slices.BinarySearchFunc(keys, key, compare)
		if at == most {
			continue
		}
		keys = slices.Insert(keys, at, key)
		keys = keys[:min(len(keys), most)]
	}
	return keys, len(of) - len(keys)
}
