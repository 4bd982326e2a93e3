package ledger

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/bursar/bursar/label"
	"github.com/bursar/bursar/resource"
)

// root is the first element of the full path of every queue of YARN. A path of another kind may
// begin with anything. It is full if the kind is in Config.FullPaths, or if the last report has it,
// which no leaf of YARN's is.
const root = "root"

// resolve gives the parts of a request their full addresses: which cluster, which path, which
// partition.
//
// Errors: *FieldError, *NotFoundError (the cluster does not have the queue), and
// *InsufficientError with Returning while that is not known yet.
func (l *Ledger) resolve(parts []resource.External, labels label.Set) ([]resource.External, error) {
	if len(parts) == 0 {
		return nil, nil
	}
	resolved := make([]resource.External, 0, len(parts))
	for i := range parts {
		field := fmt.Sprintf("resource.external[%d]", i)
		c, err := l.clusterOf(field, parts[i].Address, labels)
		if err != nil {
			return nil, err
		}
		if err := c.checkPlain(field, parts[i].Path, parts[i].Partition); err != nil {
			return nil, err
		}
		at, err := c.resolve(l.now, field, &parts[i])
		if err != nil {
			return nil, err
		}
		// A cluster may have a queue whose name no valid request can have.
		if wrong, ok := errors.AsType[*resource.FieldError](resource.NewResource(resource.Vector{}, resource.External{Address: at}).Validate()); ok {
			return nil, &FieldError{field + ".path", parts[i].Address.String(), "a queue that can be granted from; of " + at.String() + ", " + wrong.Error()}
		}
		if slices.ContainsFunc(resolved, func(other resource.External) bool { return other.Address == at }) {
			return nil, &FieldError{field + ".path", parts[i].Address.String(), "each queue once; another part is for " + at.String() + " too"}
		}
		resolved = append(resolved, resource.External{Address: at, Vector: c.terms.termed(parts[i].Vector)})
	}
	slices.SortFunc(resolved, func(a, b resource.External) int { return a.Compare(b.Address) })
	return resolved, nil
}

// clusterOf finds the cluster that an address means: the one it names, else the label's, else the
// default of its kind.
func (l *Ledger) clusterOf(field string, at resource.Address, labels label.Set) (*cluster, error) {
	var known []string
	var standard *ProviderRecord
	for i := range l.providers {
		p := &l.providers[i]
		if p.Kind != at.Kind {
			continue
		}
		known = append(known, p.Cluster)
		if p.Default || len(known) == 1 {
			standard = p
		}
	}
	if len(known) == 0 {
		return nil, &FieldError{field + ".kind", at.Kind, "a kind that a provider is configured for; " + l.kinds()}
	}
	name, from := at.Cluster, field+".cluster"
	if name == "" {
		name = labels.Value(label.Cluster)
		if name != "" {
			from = "labels[" + label.Cluster + "]"
		}
	}
	switch {
	case name != "" && slices.Contains(known, name):
		return l.cluster(ClusterName{at.Kind, name}), nil
	case name != "":
		return nil, &FieldError{from, name, withArticle(at.Kind) + " cluster that is configured: " + strings.Join(known, ", ")}
	case len(known) == 1 || standard.Default:
		return l.cluster(standard.ClusterName), nil
	}
	return nil, &FieldError{from, "", "the name of " + withArticle(at.Kind) + " cluster, as none is the default: " + strings.Join(known, ", ")}
}

// kinds says which kinds providers are configured for.
func (l *Ledger) kinds() string {
	kinds := l.configuredKinds()
	if len(kinds) == 0 {
		return "none is"
	}
	return "these are: " + strings.Join(kinds, ", ")
}

// configuredKinds are those of the providers, sorted.
func (l *Ledger) configuredKinds() (kinds []string) {
	for i := range l.providers {
		if !slices.Contains(kinds, l.providers[i].Kind) {
			kinds = append(kinds, l.providers[i].Kind)
		}
	}
	return kinds
}

// withArticle is the name of a kind as in "a yarn cluster" and "an exec cluster".
func withArticle(kind string) string {
	switch kind[:min(1, len(kind))] {
	case "a", "e", "i", "o", "u":
		return "an " + kind
	}
	return "a " + kind
}

// resolve gives a part its full address in the cluster.
func (c *cluster) resolve(now Instant, field string, x *resource.External) (resource.Address, error) {
	at := resource.Address{Kind: c.Kind, Cluster: c.Cluster, Path: x.Path, Partition: x.Partition}
	full := c.isFull(x.Path)
	switch _, there := c.standard[x.Path]; {
	case !c.known && (full || there):
		if at.Partition == "" {
			// as it last was; empty if the cluster was never read
			at.Partition = c.defaultPartition(at.Path)
		}
		return at, nil // the next report says whether it exists
	case !c.known:
		return at, c.unresolved(now, at, x.Vector)
	case !full && !there:
		paths := c.leaves[x.Path]
		if len(paths) == 0 {
			return at, &NotFoundError{What: "queue", ID: at.String()}
		}
		if len(paths) > 1 {
			return at, &FieldError{field + ".path", x.Path, "the full path of one of these queues: " + listed(paths)}
		}
		at.Path = paths[0]
	}
	if at.Partition == "" {
		at.Partition = c.defaultPartition(at.Path)
	}
	q := c.queues[queueKey{at.Path, at.Partition}]
	switch made, below := c.undeclared(queueKey{at.Path, at.Partition}); {
	case q != nil && q.known && q.leavesOnly():
		return at, &FieldError{field + ".path", x.Address.String(), q.wantedBelow()}
	case q != nil && q.known:
	case below != "":
		return at, &FieldError{field + ".path", x.Address.String(), "a queue that takes applications: " + at.Path + " takes none itself" + madeBelow(below)}
	case !made:
		return at, &NotFoundError{What: "queue", ID: at.String()}
	}
	return at, nil
}

// isFull reports whether a path is full, by itself.
func (c *cluster) isFull(path string) bool {
	return c.fullPaths || path == root || strings.HasPrefix(path, root+".")
}

// wantedBelow says which queues take applications instead of one that takes none.
func (q *clusterQueue) wantedBelow() string {
	text := "a queue that takes applications: " + q.address.Path + " takes none itself"
	leaves := q.leavesBelow(mostListed + 1)
	if len(leaves) > 0 {
		more := ""
		if len(leaves) > mostListed {
			leaves, more = leaves[:mostListed], " and more"
		}
		text += "; below it do " + strings.Join(leaves, ", ") + more
	}
	if q.report.CreatesChildren {
		text += madeBelow(q.address.Path)
	}
	return text
}

// madeBelow says that queues below a path are made by using them.
func madeBelow(path string) string {
	return "; one below it that is not there, such as " + path + ".NAME, is made by using it"
}

// unresolved refuses a request because it is not known yet which queue is meant.
func (c *cluster) unresolved(now Instant, at resource.Address, v resource.Vector) error {
	s := Shortfall{Account: queueName(at), Dimension: resource.Instances, Note: NoteUnknown, Detail: c.unknown(now)}
	for dimension, asked := range v.All() {
		if asked != 0 {
			s.Dimension, s.Requested = dimension, asked
			break
		}
	}
	return &InsufficientError{Reason: ReasonRefused, Returning: true, Shortfalls: []Shortfall{s}}
}

// defaultPartition is the default partition of this queue, or of the nearest existing one above
// it.
func (c *cluster) defaultPartition(path string) string {
	for below := true; below; path, below = parentPath(path) {
		if partition, there := c.standard[path]; there {
			return partition
		}
	}
	return ""
}

// mostListed is how many elements of a list a text names.
const mostListed = 8

// listed returns the first elements of a list, as a text.
func listed(texts []string) string {
	if len(texts) <= mostListed {
		return strings.Join(texts, ", ")
	}
	return fmt.Sprintf("%s and %d more", strings.Join(texts[:mostListed], ", "), len(texts)-mostListed)
}

// means reports whether an address, as it may be written in a request, can be this full one.
func means(asked, full resource.Address) bool {
	return asked.Kind == full.Kind &&
		(asked.Cluster == "" || asked.Cluster == full.Cluster) &&
		(asked.Path == full.Path || asked.Path == leaf(full.Path)) &&
		(asked.Partition == "" || asked.Partition == full.Partition)
}

// partOf finds the part of an allocation that an address means: the part with this address, or the
// only one that it can mean.
func partOf(parts []resource.External, asked resource.Address) (int, bool) {
	var found, count int
	for i := range parts {
		if parts[i].Address == asked {
			return i, true
		}
		if means(asked, parts[i].Address) {
			found = i
			count++
		}
	}
	return found, count == 1
}

// overlayParts replaces dimensions in the parts of an allocation by those that are set in over. It
// returns the result and, for each part of over, its index there. The error is a *FieldError.
func overlayParts(parts, over []resource.External) (result []resource.External, places []int, err error) {
	if len(over) == 0 {
		return parts, nil, nil
	}
	result = slices.Clone(parts)
	for i := range over {
		at, found := partOf(parts, over[i].Address)
		if !found {
			return nil, nil, &FieldError{fmt.Sprintf("entitled.external[%d].path", i), over[i].Address.String(), wantedPart(parts)}
		}
		for dimension, quantity := range over[i].All() {
			result[at].Vector = result[at].With(dimension, quantity)
		}
		result[at].Vector = withMaster(result[at].Vector)
		places = append(places, at)
	}
	return result, places, nil
}

func wantedPart(parts []resource.External) string {
	if len(parts) == 0 {
		return "no part: the allocation has none"
	}
	addresses := make([]string, 0, len(parts))
	for i := range parts {
		addresses = append(addresses, parts[i].Address.String())
	}
	return "the address of one part that the allocation has: " + strings.Join(addresses, ", ")
}
