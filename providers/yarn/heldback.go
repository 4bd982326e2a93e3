package yarn

import (
	"cmp"
	"context"
	"fmt"
	"io"
	"slices"
	"strings"
	"time"

	"github.com/bursar/bursar/providers"
	"github.com/bursar/bursar/resource"
)

// YARN may hold an application back although its queue has room for it: no machine has that much in
// one piece, another rule of the scheduler stands in the way, or the scheduler is late. Which ones
// these are is found out as long as something is pending:
//
//   - one request, with each reading, for the applications that have got no container yet. What
//     the first container takes, and for how long they have waited, is in the answer. Who has
//     waited for less than startsWithin is about to start
//   - those that the queue, the queues above and their user have room for, by YARN's own figures,
//     are held back. Others wait because something is full, which the books show as well
//   - if there are any, a request for all machines, at most once in piecesFor. It says whether
//     one of them has enough. Else what YARN says of the application itself is passed on
//
// Both requests are sent only if they are spare (see requestBudget). A failure is no failure of the
// reading: then nothing is known to be held back.
const (
	// startsWithin is how long YARN may take to start an application without anything being wrong.
	startsWithin = 10 * time.Second
	// mostWaiting is how many applications are looked at, about 3 kB each. The newest come first in
	// YARN's answers; which ones are left out is not known.
	mostWaiting = "1000"
	// piecesFor is how long what machines have free is kept. They are many in a large cluster.
	piecesFor = 30 * time.Second
)

// waiting is an application that has got no container yet.
type waiting struct {
	id, user, queue string
	partition       string
	needs           resource.Vector // of its first container; unset: not said
	reserved        resource.Vector // set aside for it, and counted as used in its queue
	diagnostics     string
	since           time.Duration
}

// addHeldBack says of queues what is held back there.
func (p *Provider) addHeldBack(ctx context.Context, from *server, s *Scheduler, queues []providers.Queue) {
	if !s.somePending() || p.budget.spare() == 0 {
		return
	}
	ctx, cancel := shareOf(ctx, 2)
	defer cancel()
	list, err := from.waiting(ctx)
	if err != nil {
		return
	}
	rows := newRoom(queues)
	held := map[*providers.Queue][]waiting{}
	some := false
	for _, w := range list {
		if q := rows.of(&w); q != nil && w.since >= startsWithin && rows.fits(q, &w) {
			held[q], some = append(held[q], w), true
		}
	}
	if !some {
		return
	}
	pieces := p.freePieces(ctx, from, s.Kind == FifoScheduler || s.Kind == CapacityScheduler && s.calculator(queues) != CalculatorDominant)
	for i := range queues {
		if of := held[&queues[i]]; len(of) > 0 {
			first := slices.MinFunc(of, func(a, b waiting) int { return cmp.Or(cmp.Compare(b.since, a.since), cmp.Compare(a.id, b.id)) })
			queues[i].HeldBack, queues[i].HeldBackBy = int32(len(of)), first.why(pieces) //nolint:gosec // see mostWaiting
		}
	}
}

// somePending reports whether some applications wait for something, as far as the answer says.
func (s *Scheduler) somePending() bool {
	return slices.ContainsFunc(s.Entries, func(e Entry) bool {
		unstarted := e.Active != nil && e.Containers != nil && *e.Active > *e.Containers
		return e.Pending != nil && *e.Pending > 0 || e.Waits != nil && !e.Waits.IsZero() || unstarted
	})
}

// why is why an application is held back, as far as it is known.
func (w *waiting) why(free pieces) string {
	if most, fragmented := free.short(w.partition, w.needs); fragmented {
		of := "no machine"
		if w.partition != "" {
			of += " of partition " + w.partition
		}
		return fmt.Sprintf("%s has %s in one piece, which %s needs; the most on one is %s", of, quantityText(w.needs), w.id, quantityText(most))
	}
	said := w.diagnostics
	if strings.HasPrefix(said, "[") { // when it was
		if _, rest, found := strings.Cut(said, "] "); found {
			said = rest
		}
	}
	said, _, _ = strings.Cut(said, " Details :")
	if said = strings.TrimSpace(said); said == "" {
		return "YARN does not say why " + w.id + " waits"
	}
	return "YARN says of " + w.id + ": " + said
}

// quantityText is memory and, if it counts, cpu in words.
func quantityText(v resource.Vector) string {
	memory := resource.FormatMemory(v.Memory()) + " of memory"
	if v.CPU() == resource.MaxQuantity {
		return memory
	}
	return memory + " and " + resource.FormatCPU(v.CPU()) + " cores"
}

// room is what queues have, by path and partition.
type room struct {
	rows   map[queueKey]*providers.Queue
	leaves map[string]string // paths by their last element; empty: there are several
}

func newRoom(queues []providers.Queue) *room {
	r := &room{rows: make(map[queueKey]*providers.Queue, len(queues)), leaves: make(map[string]string, len(queues))}
	for i := range queues {
		q := &queues[i]
		r.rows[queueKey{q.Path, q.Partition}] = q
		leaf := q.Path[strings.LastIndexByte(q.Path, '.')+1:]
		if path, twice := r.leaves[leaf]; twice && path != q.Path {
			r.leaves[leaf] = ""
		} else {
			r.leaves[leaf] = q.Path
		}
	}
	return r
}

// of is the queue that an application waits in; nil: that cannot be told.
func (r *room) of(w *waiting) *providers.Queue {
	if q := r.rows[queueKey{w.queue, w.partition}]; q != nil {
		return q
	}
	return r.rows[queueKey{r.leaves[w.queue], w.partition}]
}

// fits reports whether a queue, those above it, and the user in it have room for the first
// container of an application.
func (r *room) fits(q *providers.Queue, w *waiting) bool {
	if q.Closed {
		return false
	}
	needs := w.needs
	if first := q.FirstIsFree && get(q.Used, resource.AMMemory) == 0; !first && !w.activated(q) {
		needs = withMasters(needs, &w.needs, false)
	}
	limit, used := q.UserLimit, resource.Vector{}
	for i := range q.Users {
		if q.Users[i].Name == w.user {
			limit, used = q.Users[i].Limit, q.Users[i].Used
		}
	}
	if !hasRoom(limit, used, needs, w.reserved) {
		return false
	}
	for q != nil {
		if !hasRoom(q.Limit, q.Used, needs, w.reserved) {
			return false
		}
		needs = w.needs // masters are limited in leaves
		q = r.rows[queueKey{q.Parent, q.Partition}]
	}
	return true
}

// activated reports whether the CapacityScheduler has let the application start, and counts its
// master as running.
func (w *waiting) activated(q *providers.Queue) bool {
	return strings.Contains(w.diagnostics, "is Activated") || q.FirstIsFree && q.Pending != nil && *q.Pending == 0
}

// hasRoom reports whether so much more fits under a limit. What is set aside for it is in what is
// used already, and so is the application that waits.
func hasRoom(limit, used, needs, reserved resource.Vector) bool {
	for dimension, most := range limit.All() {
		n, _ := needs.Get(dimension)
		if get(used, dimension)-get(reserved, dimension)+n > most {
			return false
		}
	}
	return true
}

// waiting asks for the applications that have no container yet. The error is a *ServerError.
func (s *server) waiting(ctx context.Context) (list []waiting, err error) {
	err = s.get(ctx, "/apps", values("states", "ACCEPTED", "limit", mostWaiting), func(body io.Reader) error {
		return readAnswer(body, func(r *reader, key []byte) error {
			if string(key) != "apps" {
				return r.skip()
			}
			return readList(r, "app", waitingField, func(a *waitingAnswer) error {
				if w, is := a.waiting(); is {
					list = append(list, w)
				}
				return r.counted()
			})
		})
	})
	return list, err
}

// waitingAnswer is what an answer says of one.
type waitingAnswer struct {
	applicationAnswer
	amPartition string
	elapsed     int64 // milliseconds
	// What is set aside for it, in MiB and cores.
	reservedMemory, reservedCPU *int64
	first                       *containerRequest
}

// containerRequest is what an application asks for.
type containerRequest struct {
	place, partition string
	size             *resource.Vector
	containers       int64
}

func waitingField(r *reader, a *waitingAnswer, key []byte) (err error) {
	switch string(key) {
	case "amNodeLabelExpression":
		a.amPartition, err = r.text()
	case "elapsedTime":
		a.elapsed, _, err = r.integer()
	case "reservedMB":
		a.reservedMemory, err = r.mebibytes()
	case "reservedVCores":
		a.reservedCPU, err = r.mebibytes()
	case "resourceRequests":
		err = readList(r, "resourceRequest", requestField, func(c *containerRequest) error {
			if c.size != nil && c.containers > 0 && (a.first == nil || a.first.place != "*" && c.place == "*") {
				a.first = c
			}
			return nil
		})
	default:
		err = a.field(r, key)
	}
	return err
}

func requestField(r *reader, c *containerRequest, key []byte) (err error) {
	switch string(key) {
	case "resourceName":
		c.place, err = r.text()
	case "nodeLabelExpression":
		c.partition, err = r.text()
	case "capability":
		c.size, err = r.vector(roleTaken)
	case "numContainers":
		c.containers, _, err = r.integer()
	default:
		err = r.skip()
	}
	return err
}

// waiting is what the answer says, if the application waits for its first container.
func (a *waitingAnswer) waiting() (waiting, bool) {
	for _, held := range a.allocated() {
		if held.Memory() > 0 {
			return waiting{}, false
		}
	}
	w := waiting{id: a.id, user: a.user, queue: a.queue, partition: a.amPartition, diagnostics: a.diagnostics, since: time.Duration(max(0, a.elapsed)) * time.Millisecond}
	if a.first != nil {
		w.needs = resource.Vector{}.WithMemory(a.first.size.Memory()).WithCPU(a.first.size.CPU())
		if w.partition == "" {
			w.partition = a.first.partition
		}
	}
	if a.reservedMemory != nil {
		w.reserved = rolePromised.set(w.reserved, resource.Memory, *a.reservedMemory, mebibytes)
	}
	if a.reservedCPU != nil {
		w.reserved = rolePromised.set(w.reserved, resource.CPU, *a.reservedCPU, cores)
	}
	for _, u := range a.usages {
		if u.partition == w.partition && u.reserved != nil {
			w.reserved = *u.reserved
		}
	}
	return w, applicationID(w.id) && w.queue != "" && w.since <= maxWaited
}

// maxWaited bounds what an answer may say of how long an application has waited.
const maxWaited = 10 * 365 * 24 * time.Hour
