package ledger

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/bursar/bursar/internal/spelling"
	"github.com/bursar/bursar/resource"
)

// Custom dimensions need no definition: a host has those that it lists. So a rule for a misspelt
// one would limit nothing, and nobody would notice. Declared are the fixed dimensions and those
// that a host lists, that a queue of an external cluster lists, or that Config names. A rule for
// another one is refused unless it is forced. Rules of files, and those that were stored before,
// stay in force: the hosts that have the dimension may not be there yet. It is the same with the
// places of limits of external parts: declared are those in which a configured cluster has queues,
// or may have, because it is not known now.

// UndeclaredDimension is a dimension of a rule that nothing declares.
type UndeclaredDimension struct {
	Quota     Quota
	Dimension string // or a place: "yarn:prod:root.a"
	near      string // the declared one that was probably meant; empty: not known
}

func (u *UndeclaredDimension) String() string {
	text := fmt.Sprintf("quota %s of %s is for %s, and no host, external cluster or configuration (dimensions) has that", u.Quota.Selector.Text(), u.Quota.Source, u.Dimension)
	if u.near != "" {
		text += ": did you mean " + u.near + "?"
	}
	return text
}

// countDimensions adds a host's custom dimensions to the declared ones, or with -1 removes them.
func (l *Ledger) countDimensions(capacity resource.Vector, by int) {
	for _, q := range capacity.Custom() {
		before := l.declared[q.Name]
		after := before + by
		if (before == 0) != (after == 0) {
			l.dimensionsGeneration++
		}
		if l.declared[q.Name] = after; after == 0 {
			delete(l.declared, q.Name)
		}
	}
}

// DimensionsGeneration changes when UndeclaredDimensions may have another result.
func (l *Ledger) DimensionsGeneration() uint64 { return l.rulesGeneration + l.dimensionsGeneration }

// mostGuesses bounds for how many undeclared dimensions the nearest declared one is looked for.
const mostGuesses = 20

// UndeclaredDimensions returns the dimensions of the rules of Quotas that nothing declares, by
// selector.
func (l *Ledger) UndeclaredDimensions() (list []UndeclaredDimension) {
	known := l.Dimensions()
	for _, s := range l.latestRules().scopes {
		for _, m := range s.masks {
			for _, r := range m.rules {
				for _, dimension := range known.Undeclared(&r.Quota) {
					list = append(list, UndeclaredDimension{Quota: r.Quota, Dimension: dimension})
				}
			}
		}
	}
	slices.SortFunc(list, func(a, b UndeclaredDimension) int {
		return cmp.Or(cmp.Compare(a.Quota.Selector.String(), b.Quota.Selector.String()), cmp.Compare(a.Dimension, b.Dimension))
	})
	for i := range list[:min(len(list), mostGuesses)] {
		list[i].near = l.nearest(list[i].Dimension)
	}
	return list
}

// Dimensions says which dimensions are declared now. It is valid until the next command.
type Dimensions struct {
	ledger *Ledger
	queues map[string]bool // the custom ones that queues list; nil: not looked at yet
}

// Dimensions returns the dimensions that are declared now.
func (l *Ledger) Dimensions() *Dimensions { return &Dimensions{ledger: l} }

// Undeclared returns the dimensions of a rule, and the places of its limits and guarantees of
// external parts, that nothing declares, each once and in order.
func (d *Dimensions) Undeclared(q *Quota) (list []string) {
	for _, part := range q.parts() {
		for _, c := range part.vector.Custom() {
			if !slices.Contains(list, c.Name) && !d.has(c.Name) {
				list = append(list, c.Name)
			}
		}
	}
	if q.checkExternal() == nil {
		for _, p := range q.places() {
			if text := p.at.String(); !slices.Contains(list, text) && !d.hasPlace(p.at) {
				list = append(list, text)
			}
		}
	}
	slices.Sort(list)
	return list
}

// hasPlace reports whether a configured cluster has queues at the address of a limit, or may have.
func (d *Dimensions) hasPlace(at resource.Address) bool {
	for _, c := range d.ledger.clusters {
		if c.configured && c.Kind == at.Kind && (at.Cluster == resource.Any || at.Cluster == c.Cluster) &&
			(at.Path == resource.Any || c.hasPath(at.Path) || !c.known && plainPath(at.Path)) {
			return true
		}
	}
	return false
}

// hasPath reports whether a cluster that is known has a queue of this path, or creates it when it
// is used. A name with a "*" is more likely a pattern, which there is not, than one to be created.
func (c *cluster) hasPath(path string) bool {
	_, there := c.standard[path]
	return there || plainPath(path) && c.autoCreates(queueKey{path, c.defaultPartition(path)})
}

func (d *Dimensions) has(custom string) bool {
	l := d.ledger
	if l.declared[custom] > 0 || slices.Contains(l.cfg.Dimensions, custom) {
		return true
	}
	if d.queues == nil {
		d.queues = make(map[string]bool)
		for _, c := range l.clusters {
			c.order.Scan(func(q *clusterQueue) bool {
				for _, c := range q.report.Limit.Custom() { // none if it is not in the last report
					d.queues[c.Name] = true
				}
				return true
			})
		}
	}
	return d.queues[custom]
}

// part is one of a rule's vectors, with the path of its field.
type part struct {
	field  string
	vector resource.Vector
}

func (q *Quota) parts() []part {
	parts := []part{{"limit", q.Limit}, {"guaranteed", q.Guaranteed}}
	for _, p := range q.places() {
		parts = append(parts, part{p.field, p.vector})
	}
	if n := q.Normalization; n != nil {
		parts = append(parts, part{"normalization.minimum", n.Minimum}, part{"normalization.increment", n.Increment}, part{"normalization.maximum", n.Maximum})
	}
	return parts
}

// place is one that a rule limits or guarantees something in, with the path of its field.
type place struct {
	part
	at resource.Address
}

func (q *Quota) places() (list []place) {
	for _, e := range q.External {
		list = append(list, place{part{"limit.external[" + e.Address.String() + "]", e.Vector}, e.Address})
	}
	for _, e := range q.GuaranteedExternal {
		list = append(list, place{part{"guaranteed.external[" + e.Address.String() + "]", e.Vector}, e.Address})
	}
	return list
}

// checkDimensions refuses a rule with a dimension that nothing declares, unless the stored rule
// with its selector has the dimension already. The error is a *FieldError.
func (l *Ledger) checkDimensions(quotas []Quota) error {
	known := l.Dimensions()
	var before map[string]Quota // the stored rules
	for i := range quotas {
		q := &quotas[i]
		undeclared := known.Undeclared(q)
		if len(undeclared) == 0 {
			continue
		}
		if before == nil {
			before = storedBySelector(l.latestRules().sources)
		}
		had := before[q.Selector.String()]
		for _, part := range q.parts() {
			for _, c := range part.vector.Custom() {
				if slices.Contains(undeclared, c.Name) && !had.names(c.Name) {
					return &FieldError{q.Selector.Text() + ": " + part.field + "." + c.Name, c.Name, l.wantDimension(c.Name)}
				}
			}
		}
		for _, p := range q.places() {
			if at := p.at.String(); slices.Contains(undeclared, at) && !had.namesPlace(p.at) {
				return &FieldError{q.Selector.Text() + ": " + p.field, at, l.wantedPlace(p.at)}
			}
		}
	}
	return nil
}

// wantPlace tells the user the valid places, for a place that no cluster has.
const wantPlace = `a kind, a cluster and the full path of a queue that are there, or "*" for any cluster or path (there are no other patterns); force (--force) sets it all the same`

// wantedPlace is wantPlace with the kinds that there are, if none is of this one, or with the queue
// that was probably meant: by its last name, or in other case.
func (l *Ledger) wantedPlace(at resource.Address) string {
	kinds := l.configuredKinds()
	if len(kinds) > 0 && !slices.Contains(kinds, at.Kind) {
		return "a kind that is configured (" + strings.Join(kinds, ", ") + "): " + wantPlace
	}
	var near []string
	for _, c := range l.clusters {
		if !c.configured || c.Kind != at.Kind || at.Cluster != resource.Any && at.Cluster != c.Cluster {
			continue
		}
		paths := c.leaves[at.Path]
		for path := range c.standard {
			if strings.EqualFold(path, at.Path) {
				paths = append(slices.Clone(paths), path)
			}
		}
		for _, path := range paths {
			near = append(near, resource.Address{Kind: at.Kind, Cluster: at.Cluster, Path: path}.String())
		}
	}
	if len(near) == 0 {
		return wantPlace
	}
	slices.Sort(near)
	return listed(slices.Compact(near)) + ", or " + wantPlace
}

// namesPlace reports whether the rule says something of a place.
func (q *Quota) namesPlace(at resource.Address) bool {
	return slices.ContainsFunc(q.places(), func(p place) bool { return p.at == at })
}

// names reports whether the rule says something of a dimension.
func (q *Quota) names(dimension string) bool {
	return slices.ContainsFunc(q.parts(), func(p part) bool { return p.vector.Has(dimension) })
}

// wantDimension tells the user the valid dimensions, for a dimension that nothing declares.
func (l *Ledger) wantDimension(custom string) string {
	want := "a dimension that a host, an external cluster or the coordinator's configuration (dimensions) has"
	if near := l.nearest(custom); near != "" {
		want = near + ", or " + want
	}
	return want + "; force (--force) sets it all the same"
}

// otherNames are names by which other systems know the fixed dimensions.
var otherNames = map[string]string{
	"core": resource.CPU, "cores": resource.CPU, "vcore": resource.CPU, "vcores": resource.CPU, "cpus": resource.CPU, "millicores": resource.CPU,
	"mem": resource.Memory, "ram": resource.Memory, "heap": resource.Memory,
	"engine": resource.Instances, "engines": resource.Instances, "count": resource.Instances,
}

// mostNames bounds how many declared names are compared with one that is not declared.
const mostNames = 100

// nearest returns the declared dimension that a name was probably meant to be; empty: none is near.
func (l *Ledger) nearest(custom string) (near string) {
	custom = strings.ToLower(custom)
	if known := otherNames[custom]; known != "" {
		return known
	}
	names := append([]string{resource.Memory, resource.CPU, resource.Instances}, l.cfg.Dimensions...)
	if len(l.declared) <= mostNames {
		names = append(names, slices.Sorted(maps.Keys(l.declared))...)
	}
	// In a name of three letters every letter counts: gpu is not meant to be cpu.
	least := len(custom)/3 + 1
	if len(custom) <= 3 {
		least = 1
	}
	for _, name := range names {
		if distance := spelling.Distance(custom, strings.ToLower(name)); distance < least {
			near, least = name, distance
		}
	}
	return near
}
