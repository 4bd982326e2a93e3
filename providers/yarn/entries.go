package yarn

import (
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/bursar/bursar/resource"
)

// capacityScheduler lists the queues of the CapacityScheduler. schedulerInfo is its root queue,
// with fewer figures than other queues.
func capacityScheduler(info *node) (*Scheduler, error) {
	s := &Scheduler{Kind: CapacityScheduler, Totals: map[string]resource.Vector{}, typed: info.hasLeaf()}
	if info.name == "" {
		info.name = "root"
	}
	if err := s.list(info, "", map[string]int{}); err != nil {
		return nil, err
	}
	for _, e := range s.Entries {
		if e.Parent == "" && e.Limit != nil {
			s.Totals[e.Partition] = *e.Limit
		}
	}
	return s, nil
}

// fairScheduler lists the queues of the FairScheduler, which has no partitions.
func fairScheduler(info *node) (*Scheduler, error) {
	s := &Scheduler{Kind: FairScheduler, Totals: map[string]resource.Vector{}}
	seen := map[string]int{}
	for _, root := range info.root {
		s.typed = s.typed || root.hasLeaf()
	}
	for _, root := range info.root {
		if err := s.list(root, "", seen); err != nil {
			return nil, err
		}
		if root.cluster != nil {
			s.Totals[""] = *root.cluster
		}
	}
	return s, nil
}

// fifoScheduler makes the only queue of the FifoScheduler, which YARN calls default. This scheduler
// reports only memory, as the sum of the nodes, and has no parent queue and no shares.
func fifoScheduler(info *node) *Scheduler {
	s := &Scheduler{Kind: FifoScheduler, Totals: map[string]resource.Vector{}}
	e := Entry{Path: "root.default", State: info.state}
	if info.fifoMemory != nil {
		total := rolePromised.set(resource.Vector{}, resource.Memory, *info.fifoMemory, mebibytes)
		e.Limit, s.Totals[""] = &total, total
	}
	if info.fifoTaken != nil {
		e.Used = new(roleTaken.set(resource.Vector{}, resource.Memory, *info.fifoTaken, mebibytes))
	}
	s.Entries = []Entry{e}
	for _, figure := range info.absurd {
		s.Absurd = append(s.Absurd, e.Path+": "+figure)
	}
	return s
}

// list appends a queue and the queues below it. seen maps each listed path to the number of entries
// up to its last one.
func (s *Scheduler) list(n *node, parent string, seen map[string]int) error {
	path, fault := n.pathBelow(parent, s.Kind)
	if fault == "" && seen[path] > 0 {
		fault = "the path of another queue"
		if parent != "" {
			s.close(path, seen[path])
		}
	}
	if fault != "" {
		return s.leaveOut(n, parent, fault, s.Entries[:seen[parent]])
	}
	rows, err := n.partitions(path)
	if err != nil {
		return err
	}
	leavesOnly := n.isParent(s.typed)
	if n.cut {
		s.leftOut(fmt.Sprintf("queues below %s, with more than %d above one another", excerpt(path), maxDepth))
	}
	if n.crowded {
		s.leftOut("the users of " + excerpt(path) + ", which are too many, so it takes nothing new")
	}
	for _, figure := range n.absurd {
		s.Absurd = append(s.Absurd, path+": "+figure)
	}
	for _, row := range rows {
		row.LeavesOnly = leavesOnly
		row.Path, row.Parent = path, parent
		row.Applications, row.Pending, row.Active, row.MaxApplications = n.applications, n.pending, n.active, n.maximum
		row.ApplicationsPerUser, row.ParallelApplications, row.Containers = n.perUser, n.parallel, n.containers
		row.UserPercent, row.UserFactor, row.AutoCreated = n.userPercent, n.factor, n.autoCreated
		row.LargestContainer, row.FairShare, row.SteadyShare, row.Policy = n.largest, n.fairShare, n.steadyShare, n.policy
		row.Crowded = n.crowded
		row.Users = n.usersIn(row.Partition)
		row.State, row.CreatesChildren, row.DefaultPartition = n.state, n.createsChildren(), n.defaultPartition
		s.Entries = append(s.Entries, row)
	}
	seen[path] = len(s.Entries)
	for _, child := range n.children {
		if err := s.list(child, path, seen); err != nil {
			return err
		}
	}
	return nil
}

// pathBelow returns the full path of a queue. The FairScheduler uses full paths as names. The
// CapacityScheduler uses the last element as the name; it adds the full path only since 3.4, or
// never. fault is the reason why no request can name the queue, as the text after "with"; empty if
// one can.
func (n *node) pathBelow(parent string, kind SchedulerKind) (path, fault string) {
	switch {
	case n.fault != "":
		return "", n.fault
	case n.name == "":
		return "", "no name"
	case parent == "":
		path = n.name
	default:
		name, full := strings.CutPrefix(n.name, parent+".")
		if !full || kind == CapacityScheduler && n.path != n.name {
			name = n.name
		}
		if path = parent + "." + name; strings.Contains(name, ".") {
			return path, "a dot in its name"
		}
	}
	switch {
	case n.path != "" && n.path != path:
		return path, "two paths: its place says " + excerpt(strconv.Quote(path)) + " and the queue " + excerpt(strconv.Quote(n.path))
	case len(path) > maxName:
		return "", longPath
	}
	return path, ""
}

// createsChildren reports whether the cluster creates child queues on first use. Hadoop 3.4 reports
// this. Hadoop 3.3 reports it for one of the two ways to create queues. In earlier versions only
// the existence of created queues shows it.
func (n *node) createsChildren() bool {
	if n.eligibility != "" {
		return n.eligibility != "off"
	}
	if n.autoCreates {
		return true
	}
	for _, child := range n.children {
		if child.made {
			return true
		}
	}
	return false
}

// isParent reports whether the queue takes no applications itself. A queue without children may be
// a parent, too: in an answer with types, it is then the only kind of queue without a type.
func (n *node) isParent(typed bool) bool {
	switch {
	case len(n.children) > 0, n.cut, n.queueType == "parent":
		return true
	case n.leaf, n.queueType == "leaf":
		return false
	}
	return typed || n.createsChildren()
}

// hasLeaf reports whether the answer marks this queue, or one below it, as a leaf.
func (n *node) hasLeaf() bool { return n.leaf || slices.ContainsFunc(n.children, (*node).hasLeaf) }

// partitions returns a row for each partition in which the queue has a capacity or uses something,
// in the order of the answer. Versions before 2.8 and the FairScheduler list no partitions: their
// figures belong to the default partition. So do the figures outside the lists.
func (n *node) partitions(path string) ([]Entry, error) {
	rows := make([]Entry, 0, max(len(n.capacities), 1))
	at := func(partition string) *Entry {
		for i := range rows {
			if rows[i].Partition == partition {
				return &rows[i]
			}
		}
		return nil
	}
	for _, c := range n.capacities {
		if at(c.partition) != nil {
			return nil, malformed(fmt.Sprintf("partition %q is there twice in queue %q", c.partition, path))
		}
		rows = append(rows, Entry{
			Partition: c.partition, Limit: c.limit, Guaranteed: c.guaranteed,
			AbsoluteCapacity: c.absolute, AbsoluteMaxCapacity: c.absoluteMax, AMPercent: c.amPercent,
			ConfiguredLimit: c.most, ConfiguredGuarantee: c.least,
		})
	}
	for i, u := range n.usages {
		if slices.ContainsFunc(n.usages[:i], func(v usage) bool { return v.partition == u.partition }) {
			return nil, malformed(fmt.Sprintf("partition %q is there twice in queue %q", u.partition, path))
		}
		row := at(u.partition)
		if row == nil {
			rows = append(rows, Entry{Partition: u.partition})
			row = &rows[len(rows)-1]
		}
		row.Used, row.Reserved, row.AMUsed, row.AMLimit = u.used, u.reserved, u.amUsed, u.amLimit
		row.Waits = u.pending
	}
	if len(rows) == 0 {
		rows = append(rows, Entry{})
	}
	if row := at(""); row != nil {
		row.Limit, row.Guaranteed = first(row.Limit, n.limit), first(row.Guaranteed, n.guaranteed)
		row.Used, row.Reserved = first(row.Used, n.used), first(row.Reserved, n.reserved)
		row.AMLimit, row.AMUsed = first(row.AMLimit, n.amLimit), first(row.AMUsed, n.amUsed)
		if row.AMPercent == nil {
			row.UserAMLimit = n.userAMLimit
		}
		row.AbsoluteCapacity = first(row.AbsoluteCapacity, n.absolute)
		row.AbsoluteMaxCapacity = first(row.AbsoluteMaxCapacity, n.absoluteMax)
	}
	return rows, nil
}

// usersIn returns the users of the queue in a partition, each once. Versions before 2.8 report
// their use of the default partition.
func (n *node) usersIn(partition string) (users []UserEntry) {
	seen := make(map[string]bool, len(n.users))
	for i := range n.users {
		from := &n.users[i]
		if from.name == "" || seen[from.name] {
			continue
		}
		seen[from.name] = true
		u := UserEntry{Name: from.name, Applications: plusCount(counted(from.pending), counted(from.active)), Weight: from.weight, Active: from.isActive}
		if partition == "" {
			u.Used, u.AMUsed = from.used, from.amUsed
		}
		for _, in := range from.usages {
			if in.partition == partition {
				u.Used, u.AMUsed, u.AMLimit = first(in.used, u.Used), first(in.amUsed, u.AMUsed), in.amLimit
			}
		}
		users = append(users, u)
	}
	return users
}

func first[T any](a, b *T) *T {
	if a != nil {
		return a
	}
	return b
}
