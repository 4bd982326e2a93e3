package yarn

import (
	"fmt"
	"strings"

	"github.com/bursar/bursar/internal/spelling"
	"github.com/bursar/bursar/providers"
)

// A cluster may create a queue when a user first uses it, and the user chooses the name. A queue
// that no request can name is left out together with the queues below it; the others are read as
// usual.

// leftOut records what was left out. It keeps only the first entries.
func (s *Scheduler) leftOut(what string) {
	if len(s.LeftOut) == maxAbsurd {
		s.MoreLeftOut++
		return
	}
	s.LeftOut = append(s.LeftOut, what)
}

// leaveOut adds the use of a queue that no request can name, and of the queues below it, to the
// parent. The parent's entries are the last ones in listed. fault is the reason, from pathBelow.
// The error is an *AnswerError: a root queue has no parent.
func (s *Scheduler) leaveOut(n *node, parent, fault string, listed []Entry) error {
	switch {
	case parent != "":
	case fault == longPath:
		return &AnswerError{Refusal: Excessive, Detail: fault}
	default:
		return malformed("a root queue with " + fault)
	}
	s.leftOut(fmt.Sprintf("a queue below %s, with %s", excerpt(parent), fault))
	s.unnamed(n, parent, "it has "+fault)
	below := n.unlisted(s.Kind)
	for i := len(listed) - 1; i >= 0 && listed[i].Path == parent; i-- {
		e := &listed[i]
		has := below[e.Partition]
		if has == nil {
			continue
		}
		if e.unlisted == nil {
			e.unlisted = &providers.Queue{}
		}
		e.unlisted.Used = plus(e.unlisted.Used, has.Used)
		addCounts(e.unlisted, &Entry{}, has)
	}
	return nil
}

// unnamed records a queue that no request can name.
func (s *Scheduler) unnamed(n *node, parent, reason string) {
	if len(s.Unaddressable) == providers.MostUnaddressable {
		s.MoreUnaddressable++
		return
	}
	name := n.name
	if n.begins != "" {
		name = n.begins
	}
	shown := spelling.Quoted(strings.TrimPrefix(name, parent+"."), maxExcerpt)
	s.Unaddressable = append(s.Unaddressable, providers.Unaddressable{Name: shown, Parent: parent, Reason: reason})
}

// close stops new requests in a queue because another queue has the same path, and a request could
// mean either. The queue's entries are the last ones before end.
func (s *Scheduler) close(path string, end int) {
	for i := end - 1; i >= 0 && s.Entries[i].Path == path; i-- {
		s.Entries[i].Doubled = true
	}
}

// unlisted returns the use of a queue by partition. It adds the use of the queues below where the
// queue has no own figure. Counts are those of the queue.
func (n *node) unlisted(by SchedulerKind) map[string]*providers.Queue {
	rows, err := n.partitions(n.name)
	if err != nil {
		return nil // malformed, and no request can name the queue
	}
	all := make(map[string]*providers.Queue, len(rows))
	said := make(map[string]bool, len(rows))
	s := Scheduler{Kind: by}
	for _, e := range rows {
		e.Applications, e.Pending, e.Active = n.applications, n.pending, n.active
		q := s.queue(e, s.total(e.Partition, nil))
		all[e.Partition], said[e.Partition] = &q, e.Used != nil
	}
	for _, child := range n.children {
		for partition, has := range child.unlisted(by) {
			q := all[partition]
			if q == nil {
				q = &providers.Queue{}
				all[partition] = q
			}
			if !said[partition] {
				q.Used = plus(q.Used, has.Used)
			}
			addCounts(q, &Entry{Applications: n.applications, Pending: n.pending, Active: n.active}, has)
		}
	}
	return all
}
