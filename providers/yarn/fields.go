package yarn

import (
	"strings"

	"github.com/go-json-experiment/json/jsontext"

	"github.com/bursar/bursar/resource"
)

// node is one queue as decoded. No two schedulers use a key for different things, so one set of
// fields serves all of them. Fields may come in any order.
type node struct {
	kind       string // of the top node, such as "capacityScheduler"
	leaf       bool   // its type says that it can have no children
	queueType  string // "parent" or "leaf", since 3.4
	name, path string
	// fault is the reason why name or path cannot be used; begins is the beginning of that text.
	fault, begins string
	cut           bool // its children are too deep and were not read
	state         string
	// Signs that the cluster creates children: a word in 3.4, a flag in 3.1 to 3.3. made: the
	// cluster created this queue itself on first use.
	eligibility       string
	autoCreates, made bool
	defaultPartition  string
	children          []*node
	root              []*node // the FairScheduler's root, in the top node

	absolute, absoluteMax                  *float64
	limit, guaranteed, used, reserved      *resource.Vector // of the default partition
	cluster                                *resource.Vector
	capacities                             []capacity
	usages                                 []usage
	applications, pending, active, maximum *int32
	applicationLimits
	// absurd lists impossible figures, with their names.
	absurd []string
	// Figures of the FifoScheduler, in MiB. fifo: a field that only this scheduler has is present.
	fifo                  bool
	fifoMemory, fifoTaken *int64
}

// capacity is a queue's capacity in a partition.
type capacity struct {
	partition             string
	absolute, absoluteMax *float64
	limit, guaranteed     *resource.Vector
	most, least           *resource.Vector // configured absolute amounts
	amPercent             *float64
}

// usage is the use of a partition by a queue, or by a user in it.
type usage struct {
	partition       string
	used, reserved  *resource.Vector
	amUsed, amLimit *resource.Vector
	pending         *resource.Vector
}

// nodeField reads one field of a queue.
type nodeField func(*reader, *node) error

// nodeFields maps the known keys to their readers, except for the keys of child queues. All other
// keys are skipped. "health" must not be known, because its structure changes with the latest
// event.
var nodeFields = map[string]nodeField{
	// The CapacityScheduler.
	"type":                        readType,
	"queueType":                   word(func(n *node) *string { return &n.queueType }),
	"queueName":                   nameAt(func(n *node) *string { return &n.name }),
	"queuePath":                   nameAt(func(n *node) *string { return &n.path }),
	"state":                       word(func(n *node) *string { return &n.state }),
	"autoCreationEligibility":     word(func(n *node) *string { return &n.eligibility }),
	"defaultNodeLabelExpression":  word(func(n *node) *string { return &n.defaultPartition }),
	"autoCreateChildQueueEnabled": readAutoCreates,
	"isAutoCreatedLeafQueue":      readMade,
	"creationMethod":              readCreationMethod,
	"capacities":                  readCapacities,
	"resources":                   readUsages,
	"absoluteCapacity":            portionOf(func(n *node) **float64 { return &n.absolute }),
	"absoluteMaxCapacity":         portionOf(func(n *node) **float64 { return &n.absoluteMax }),
	"maxEffectiveCapacity":        vector(roleLimit, func(n *node) **resource.Vector { return &n.limit }),
	"minEffectiveCapacity":        vector(rolePromised, func(n *node) **resource.Vector { return &n.guaranteed }),
	"resourcesUsed":               vector(roleTaken, func(n *node) **resource.Vector { return &n.used }),
	"numApplications":             number(func(n *node) **int32 { return &n.applications }),
	"numPendingApplications":      number(func(n *node) **int32 { return &n.pending }),
	"numActiveApplications":       number(func(n *node) **int32 { return &n.active }),
	"maxApplications":             number(func(n *node) **int32 { return &n.maximum }),
	// The FairScheduler.
	"maxResources":      vector(roleLimit, func(n *node) **resource.Vector { return &n.limit }),
	"minResources":      vector(rolePromised, func(n *node) **resource.Vector { return &n.guaranteed }),
	"usedResources":     vector(roleTaken, func(n *node) **resource.Vector { return &n.used }),
	"reservedResources": vector(roleTaken, func(n *node) **resource.Vector { return &n.reserved }),
	"clusterResources":  vector(rolePromised, func(n *node) **resource.Vector { return &n.cluster }),
	"numPendingApps":    number(func(n *node) **int32 { return &n.pending }),
	"numActiveApps":     number(func(n *node) **int32 { return &n.active }),
	"maxApps":           number(func(n *node) **int32 { return &n.maximum }),
	// The FifoScheduler.
	"qstate":            readFifoState,
	"totalNodeCapacity": figure((*reader).mebibytes, func(n *node) **int64 { return &n.fifoMemory }),
	"usedNodeCapacity":  figure((*reader).mebibytes, func(n *node) **int64 { return &n.fifoTaken }),
}

// figure reads a field that may be absent: an invalid value leaves the field unset. In Hadoop's own
// examples, some queues of a CapacityScheduler have a resource as text where those of a
// FairScheduler have an object.
func figure[T any](read func(*reader) (*T, error), at func(*node) **T) nodeField {
	return func(r *reader, n *node) error {
		v, err := read(r)
		if v != nil {
			*at(n) = v
		}
		return err
	}
}

func word(at func(*node) *string) nodeField {
	return func(r *reader, n *node) (err error) {
		*at(n), err = r.text()
		return err
	}
}

// nameAt reads the queue's own name or path.
func nameAt(at func(*node) *string) nodeField {
	return func(r *reader, n *node) error {
		name, err := r.name()
		*at(n) = name.text
		if name.fault != "" && n.fault == "" {
			n.fault, n.begins = name.fault, name.begins
		}
		return err
	}
}

func number(at func(*node) **int32) nodeField { return figure((*reader).count, at) }

func portionOf(at func(*node) **float64) nodeField { return figure((*reader).percentOfAll, at) }

func vector(as role, at func(*node) **resource.Vector) nodeField {
	return figure(func(r *reader) (*resource.Vector, error) { return r.vector(as) }, at)
}

// readType reads a text or, before 2.8, a list of one.
func readType(r *reader, n *node) error {
	if r.next() == jsontext.KindBeginArray {
		return r.array(func() error { return readType(r, n) })
	}
	kind, err := r.text()
	n.kind, n.leaf = kind, n.leaf || strings.HasSuffix(kind, "LeafQueueInfo")
	return err
}

func readAutoCreates(r *reader, n *node) (err error) {
	n.autoCreates, err = r.boolean()
	return err
}

func readMade(r *reader, n *node) error {
	made, err := r.boolean()
	n.made, n.autoCreated = n.made || made, made
	return err
}

func readCreationMethod(r *reader, n *node) error {
	method, err := r.text()
	n.made = n.made || strings.HasPrefix(method, "dynamic") // dynamicLegacy, dynamicFlexible
	return err
}

func readFifoState(r *reader, n *node) (err error) {
	n.fifo = true
	n.state, err = r.text()
	return err
}

func readCapacities(r *reader, n *node) error {
	return readList(r, "queueCapacitiesByPartition", capacityField, func(c *capacity) error {
		n.capacities = append(n.capacities, *c)
		return r.countedPartition(len(n.capacities))
	})
}

func capacityField(r *reader, c *capacity, key []byte) (err error) {
	switch string(key) {
	case "partitionName":
		c.partition, err = r.text()
	case "absoluteCapacity":
		c.absolute, err = r.percentOfAll()
	case "absoluteMaxCapacity":
		c.absoluteMax, err = r.percentOfAll()
	case "effectiveMaxResource":
		c.limit, err = r.vector(roleLimit)
	case "effectiveMinResource":
		c.guaranteed, err = r.vector(rolePromised)
	case "configuredMaxResource":
		c.most, err = r.vector(rolePromised)
	case "configuredMinResource":
		c.least, err = r.vector(rolePromised)
	case "maxAMLimitPercentage":
		c.amPercent, err = r.percent()
	default:
		err = r.skip()
	}
	return err
}

func readUsages(r *reader, n *node) error {
	return readList(r, "resourceUsagesByPartition", usageField, func(u *usage) error {
		n.usages = append(n.usages, *u)
		return r.countedPartition(len(n.usages))
	})
}

func usageField(r *reader, u *usage, key []byte) (err error) {
	switch string(key) {
	case "partitionName":
		u.partition, err = r.text()
	case "used":
		u.used, err = r.vector(roleTaken)
	case "reserved":
		u.reserved, err = r.vector(roleTaken)
	case "pending":
		u.pending, err = r.vector(roleTaken)
	case "amUsed":
		u.amUsed, err = r.vector(roleTaken)
	case "amLimit":
		u.amLimit, err = r.vector(roleLimit)
	default:
		err = r.skip()
	}
	return err
}

// readChildren reads the queues below one. Before Hadoop 2.8 the FairScheduler repeats the key for
// each child, so readChildren appends to the list.
func readChildren(r *reader, n *node) error {
	if r.depth == maxDepth {
		n.cut = true
		return r.skip()
	}
	r.depth++
	err := r.nodes(&n.children)
	r.depth--
	return err
}

func (r *reader) nodes(list *[]*node) error {
	return readList(r, "queue", queueField, func(n *node) error {
		*list = append(*list, n)
		return r.counted()
	})
}

func queueField(r *reader, n *node, key []byte) error {
	switch string(key) { // these recurse, so they cannot be in the table
	case "queues", "childQueues":
		return readChildren(r, n)
	case "rootQueue":
		return r.nodes(&n.root)
	}
	read, known := nodeFields[string(key)]
	if !known {
		read, known = limitFields[string(key)]
	}
	if !known {
		return r.skip()
	}
	name := string(key) // key is valid only until its value is read
	err := read(r, n)
	for _, figure := range r.figures {
		n.absurd = append(n.absurd, name+" "+figure)
	}
	r.figures = r.figures[:0]
	return err
}
