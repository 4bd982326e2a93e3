package yarn

import (
	"fmt"
	"strings"

	"github.com/bursar/bursar/internal/spelling"
	"github.com/bursar/bursar/providers"
)

// A cluster makes queues when somebody uses them, and whoever does so chooses the name. One that
// nobody can ask for is left out with those below it, and the others are read as ever.

// leftOut notes that something is left out. Only the first are kept.
func (s *Scheduler) leftOut(what string) {
	if len(s.LeftOut) == maxAbsurd {
		s.MoreLeftOut++
		return
	}
	s.LeftOut = append(s.LeftOut, what)
}

// leaveOut counts what a queue has that no request can name, and those below it, in the one above,
// whose entries are the last of those listed. fault is what the queue has, as pathBelow says. The
// error is an *AnswerError: there is none above.
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

// unnamed notes a queue that no request can name.
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

// close lets a queue take nothing new, because another queue has the same path: a request would not
// say which of them it means. Its entries are the last of the first so many.
func (s *Scheduler) close(path string, end int) {
	for i := end - 1; i >= 0 && s.Entries[i].Path == path; i-- {
		s.Entries[i].Doubled = true
	}
}

// unlisted is what a queue has, by partition, and those below it as far as it does not say that
// itself. Counts are those of the queue.
func (n *node) unlisted(by SchedulerKind) map[string]*providers.Queue {
	rows, err := n.partitions(n.name)
	if err != nil {
		return nil // it makes no sense, and nobody can ask for it
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
