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
	}
}

// Remove takes out a host that was added with these labels.
func (c *Census) Remove(labels label.Set) {
	c.hosts--
	for _, l := range labels {
		of := c.keys[l.Key]
		if of.hosts--; of.hosts == 0 {
			delete(c.keys, l.Key)
			continue
		}
		if of.values[l.Value]--; of.values[l.Value] == 0 {
			delete(of.values, l.Value)
		}
	}
}

// Meet counts the hosts that meet a condition. It looks at each value of one label.
func (c *Census) Meet(condition Condition) (n int) {
	of := c.column(condition.key)
	if condition.holdsFor("", false) {
		n = c.hosts - of.hosts
	}
	for value, hosts := range of.values {
		if condition.holdsFor(value, true) {
			n += hosts
		}
	}
	return n
}

func (c *Census) column(key string) column {
	if of := c.keys[key]; of != nil {
		return *of
	}
	return column{}
}

// commonest returns at most so many values of a label, those that most hosts have, in their order.
// more is how many values were left out.
func (c *Census) commonest(key string, most int) (values []string, more int) {
	counts := c.column(key).values
	before := func(a, b string) int { return cmp.Or(cmp.Compare(counts[b], counts[a]), cmp.Compare(a, b)) }
	values, more = first(counts, most, before)
	slices.Sort(values)
	return values, more
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
