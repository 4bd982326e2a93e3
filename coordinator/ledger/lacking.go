package ledger

import (
	"fmt"
	"strconv"
	"strings"

	"github.com/bursar/bursar/internal/spelling"
	"github.com/bursar/bursar/resource"
)

const (
	// lackingDimensions bounds how many dimensions a reason names, and lackingBytes the words of
	// others in it.
	lackingDimensions = 3
	lackingBytes      = 200
)

// describe adds the shortfalls to the reason of a waiting allocation: the dimensions and amounts
// that are missing in the account that it waits for. If it waits for any host, that is the closest
// one.
//
// The answer is kept for all requests of the class until the next command. fresh counts those that
// were worked out: the placer looks at a bounded number of hosts for each.
func (l *Ledger) describe(c *class, why string) string {
	if c.lackingOf != l.commands {
		c.lacking, c.lackingOf = l.lacking(c.group.queue, c.first()), l.commands
		l.fresh++
	}
	return why + c.lacking
}

// Described is how many reasons of waiting allocations were worked out so far. A reader of many
// bounds its steps by that.
func (l *Ledger) Described() uint64 { return l.fresh }

// Describe completes the reason of an allocation that Allocations yielded: it becomes that of Get.
func (l *Ledger) Describe(a *Allocation) {
	if e := l.entry(a.ID); e != nil && a.State == Waiting {
		a.Reason = l.shown(e).Reason
	}
}

// lacking names the shortfalls of a request that waits in a queue, in words that follow the name of
// the queue. It is empty if nothing is short, because others have their turn first.
func (l *Ledger) lacking(q *queue, e *entry) string {
	switch {
	case q == &l.absent: // which says that itself
		return ""
	case q.account == nil:
		h, which := l.nearestHost(e)
		if h == nil || h.state == Returning {
			return ""
		}
		if text := lackingText(l.shortOn(nil, h, e)); text != "" {
			return ": " + h.ID + which + text
		}
	case q.host != nil && q.host.state == Returning: // nothing is known of it yet
		return ""
	default:
		for c := range l.charges(e).all {
			if &c.account.queue != q {
				continue
			}
			if text := lackingText(l.shortfalls(nil, e, c)); text != "" {
				return ", which " + text
			}
		}
	}
	return ""
}

// nearestHost is the host that has most of what a request asks for, and words that follow its name.
// If that host is too small to take the request ever, it is one that is not. nil: there is none.
func (l *Ledger) nearestHost(e *entry) (h *host, which string) {
	q := Query{Request: e.request(), Wishes: e.Wishes}
	slot, which := l.placer.Closest(q), ", the closest, "
	if slot != NoSlot && l.slots[slot].neverFits(q.Request) {
		slot, which = l.placer.Sized(q), " "
	}
	if slot == NoSlot {
		return nil, ""
	}
	return l.slots[slot], which
}

// lackingText names the shortfalls of one account, in words that follow its name: "lacks
// 2GiB of memory and 1 core".
func lackingText(list []Shortfall) string {
	var amounts []string
	more := ""
	for i := range list {
		s := &list[i]
		if closed := s.closedText(); closed != "" {
			return closed
		}
		if lack := s.Requested - s.Available; lack > 0 && len(amounts) < lackingDimensions {
			amounts = append(amounts, amountText(s.Dimension, lack))
			more = s.why()
		}
	}
	if len(amounts) == 0 {
		return ""
	}
	last := len(amounts) - 1
	text := amounts[last]
	if last > 0 {
		text = strings.Join(amounts[:last], ", ") + " and " + text
	}
	return "lacks " + text + more
}

// closedText says why an account grants nothing whatever it has; empty if its numbers say that.
func (s *Shortfall) closedText() string {
	detail := spelling.Line(s.Detail, lackingBytes)
	switch s.Note {
	case NoteCordoned:
		return withReason("is cordoned", detail)
	case NoteDraining:
		return withReason("is draining", detail)
	case NoteHealth, NoteRefused:
		return withReason("takes no new engines", detail)
	case NotePressure:
		return "is under memory pressure"
	case NoteUnknown:
		return withReason("is not known", detail)
	case NoteLabels:
		return withReason("lacks labels", detail)
	case NoteStopped:
		return withReason("takes no applications", detail)
	case NoteMissing:
		if s.Account.Kind == QueueAccount {
			return withReason("is not there", detail)
		}
		return "has no " + s.Dimension + " now"
	case NoteHeldBack:
		return withReason("holds applications back", detail)
	default:
		return ""
	}
}

// why gives a reason that the numbers do not show, in words that follow them.
func (s *Shortfall) why() string {
	switch s.Note {
	case NoteMeasured:
		return " by what it measures"
	case NoteHeld:
		if s.Detail != "" {
			return ", kept " + spelling.Line(s.Detail, lackingBytes)
		}
		return ", kept for a request that waits longer"
	default:
		return ""
	}
}

// amountText writes a quantity as people say it: "1 core", "2.3GiB of memory".
func amountText(dimension string, n int64) string {
	switch dimension {
	case resource.CPU:
		if n == 1000 {
			return "1 core"
		}
		return strconv.FormatFloat(float64(n)/1000, 'f', -1, 64) + " cores"
	case resource.Instances:
		if n == 1 {
			return "1 instance"
		}
		return fmt.Sprintf("%d instances", n)
	case resource.Memory, resource.AMMemory:
		return resource.ReadableMemory(n) + " of " + dimension
	}
	return resource.FormatQuantity(dimension, n) + " of " + dimension
}
