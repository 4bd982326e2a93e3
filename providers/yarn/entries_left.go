package yarn

import (
	"fmt"

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

// leaveOut counts what a queue has that is not listed, and those below it, in the one above, whose
// entries are the last of those listed. The error is an *AnswerError: there is none above.
func (s *Scheduler) leaveOut(n *node, parent string, listed []Entry) error {
	const why = "a path of more than %d bytes"
	if parent == "" {
		return &AnswerError{Refusal: Excessive, Detail: fmt.Sprintf(why, maxName)}
	}
	s.leftOut(fmt.Sprintf("a queue below %s, with "+why, excerpt(parent), maxName))
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
