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

// YARN may hold an application back although its queue has room for it: no machine has enough free
// resources, another rule of the scheduler prevents it, or the scheduler is late. While some
// application is pending, the provider looks for such applications:
//
//   - With each reading it sends one request for the applications without a container. The answer
//     has the size of the first container and the waiting time. An application that has waited for
//     less than startsWithin is about to start.
//   - An application is held back if, by YARN's own figures, the queue, the queues above and the
//     user have room for it. Others wait because a limit is reached, which the reading shows as
//     well.
//   - If an application is held back, the provider requests all machines, at most once in
//     piecesFor, and checks whether one machine has enough. If one has, it passes on YARN's own
//     diagnostics.
//
// Both requests are sent only if the budget has room (see requestBudget). If one fails, the reading
// continues without applications that are held back.
const (
	// startsWithin is the normal time until YARN starts an application.
	startsWithin = 10 * time.Second
	// mostWaiting limits the answer, in applications of about 3 kB each. YARN lists the newest
	// first; it does not tell which ones it left out.
	mostWaiting = "1000"
	// piecesFor is how long the free resources of machines are kept. A large cluster has many
	// machines.
	piecesFor = 30 * time.Second
)

// waiting is an application without a container.
type waiting struct {
	id, user, queue string
	partition       string
	needs           resource.Vector // of its first container; unset: not reported
	reserved        resource.Vector // reserved for it, and counted as used in its queue
	diagnostics     string
	since           time.Duration
}

// addHeldBack sets HeldBack and HeldBackBy of queues.
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

// somePending reports whether some application waits, as far as the answer tells.
func (s *Scheduler) somePending() bool {
	return slices.ContainsFunc(s.Entries, func(e Entry) bool {
		unstarted := e.Active != nil && e.Containers != nil && *e.Active > *e.Containers
		return e.Pending != nil && *e.Pending > 0 || e.Waits != nil && !e.Waits.IsZero() || unstarted
	})
}

// why returns the reason why an application is held back, as far as it is known.
func (w *waiting) why(free pieces) string {
	if most, fragmented := free.short(w.partition, w.needs); fragmented {
		of := "no machine"
		if w.partition != "" {
			of += " of partition " + w.partition
		}
		return fmt.Sprintf("%s has %s in one piece, which %s needs; the most on one is %s", of, quantityText(w.needs), w.id, quantityText(most))
	}
	said := w.diagnostics
	if strings.HasPrefix(said, "[") { // a timestamp
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

// quantityText formats memory and, if it counts, cpu.
func quantityText(v resource.Vector) string {
	memory := resource.FormatMemory(v.Memory()) + " of memory"
	if v.CPU() == resource.MaxQuantity {
		return memory
	}
	return memory + " and " + resource.FormatCPU(v.CPU()) + " cores"
}

// room finds queues by path and partition.
type room struct {
	rows   map[queueKey]*providers.Queue
	leaves map[string]string // paths by their last element; empty: ambiguous
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

// of returns the queue that an application waits in; nil if it is ambiguous or unknown.
func (r *room) of(w *waiting) *providers.Queue {
	if q := r.rows[queueKey{w.queue, w.partition}]; q != nil {
		return q
	}
	return r.rows[queueKey{r.leaves[w.queue], w.partition}]
}

// fits reports whether a queue, the queues above it and the user have room for an application's
// first container.
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
		needs = w.needs // only leaves limit masters
		q = r.rows[queueKey{q.Parent, q.Partition}]
	}
	return true
}

// activated reports whether the CapacityScheduler has activated the application. It then counts the
// application's master as running.
func (w *waiting) activated(q *providers.Queue) bool {
	return strings.Contains(w.diagnostics, "is Activated") || q.FirstIsFree && q.Pending != nil && *q.Pending == 0
}

// hasRoom reports whether needs fits under a limit. used contains reserved, the amount that is
// reserved for the same application.
func hasRoom(limit, used, needs, reserved resource.Vector) bool {
	for dimension, most := range limit.All() {
		n, _ := needs.Get(dimension)
		if get(used, dimension)-get(reserved, dimension)+n > most {
			return false
		}
	}
	return true
}

// waiting asks for the applications without a container. The error is a *ServerError.
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

// waitingAnswer is a decoded answer about a waiting application.
type waitingAnswer struct {
	applicationAnswer
	amPartition string
	elapsed     int64 // milliseconds
	// Reserved for the application, in MiB and cores.
	reservedMemory, reservedCPU *int64
	first                       *containerRequest
}

// containerRequest is an application's request for containers.
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

// waiting converts the answer, if the application waits for its first container.
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

// maxWaited bounds the plausible waiting time in an answer.
const maxWaited = 10 * 365 * 24 * time.Hour
