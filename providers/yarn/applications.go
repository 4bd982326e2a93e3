package yarn

import (
	"cmp"
	"context"
	"errors"
	"io"
	"net/url"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/go-json-experiment/json/jsontext"

	"github.com/bursar/bursar/providers"
	"github.com/bursar/bursar/resource"
)

// maxAsked limits the single requests for applications in one call, so that thousands of
// applications cause little load. The call asks for the applications with the oldest answers first,
// and takes the others from the kept answers. A kept answer is valid for maxAge, by default 6
// intervals. After that the application is unknown until the next answer: it counts as if it held
// nothing of its queue yet. An answer may be older than the reading of the queues. An ended
// application is asked for once. The setting requestsPerMinute can lower the number of requests,
// and one list request can replace many of them: see lists.
//
// Callers choose the ids, and may invent some. So known applications whose answer is older than
// half of maxAge alternate with unknown ids: invented ids take at most every other request. If the
// cluster has not known an id for longer than the setting settle, the pause between two requests
// for it grows to a quarter of that time, up to rarestAsked.
const (
	maxAsked    = 1024
	rarestAsked = 10 * time.Minute
)

// answered is the latest answer about an application.
type answered struct {
	app     providers.Application
	at      time.Time
	unknown time.Time // the first of the latest answers in a row that do not know it
}

// rests reports whether an application that the cluster does not know need not be asked for yet.
func (a answered) rests(now time.Time, settle time.Duration) bool {
	missing := a.at.Sub(a.unknown)
	return !a.app.Known && missing > settle && now.Sub(a.at) < min(missing/4, rarestAsked)
}

// keep stores an answer.
func (p *Provider) keep(app providers.Application) {
	now := p.now()
	made := answered{app: app, at: now}
	if !app.Known {
		if made.unknown = p.answers[app.ID].unknown; made.unknown.IsZero() {
			made.unknown = now
		}
	}
	p.answers[app.ID] = made
}

// inTurns interleaves two lists.
func inTurns(a, b []string) []string {
	list := make([]string, 0, len(a)+len(b))
	for i := range max(len(a), len(b)) {
		list = append(append(list, a[min(i, len(a)):min(i+1, len(a))]...), b[min(i, len(b)):min(i+1, len(b))]...)
	}
	return list
}

// Applications asks for applications, with one list or one by one, within the setting timeout and
// the deadline of ctx. An id that YARN cannot have made is unknown; the provider does not ask for
// it.
func (p *Provider) Applications(ctx context.Context, ids []string) ([]providers.Application, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	ctx, cancel := context.WithTimeout(ctx, p.settings.pace.Timeout)
	defer cancel()

	now, settle := p.now(), p.settings.pace.Settle
	wanted := make(map[string]bool, len(ids))
	kept := make(map[string]answered, len(ids))
	var due, unseen, fresh, foreign []string
	for _, id := range ids {
		if wanted[id] {
			continue
		}
		wanted[id] = true
		last, known := p.answers[id]
		if known {
			kept[id] = last
		}
		switch {
		case !applicationID(id):
			foreign = append(foreign, id)
		case last.app.Ended, known && last.rests(now, settle):
		case last.app.Known && now.Sub(last.at) < p.settings.pace.MaxAge/2:
			fresh = append(fresh, id)
		case last.app.Known:
			due = append(due, id)
		default:
			unseen = append(unseen, id)
		}
	}
	p.answers = kept // forgets the applications that the caller no longer asks for
	for _, ask := range [][]string{due, unseen, fresh} {
		slices.SortStableFunc(ask, func(a, b string) int { return kept[a].at.Compare(kept[b].at) })
	}
	err := p.askFor(ctx, append(inTurns(due, unseen), fresh...))

	var list []providers.Application
	for _, id := range foreign {
		list = append(list, providers.Application{ID: id})
	}
	now = p.now()
	for _, last := range p.answers {
		if last.app.Ended || last.rests(now, settle) || now.Sub(last.at) <= p.settings.pace.MaxAge {
			last.app.Diagnostics = p.servers[0].hide(last.app.Diagnostics) // all have the same secrets
			list = append(list, last.app)
		}
	}
	slices.SortFunc(list, func(a, b providers.Application) int { return cmp.Compare(a.ID, b.ID) })
	if _, spent := errors.AsType[*BudgetError](err); spent && len(list) == len(wanted) {
		err = nil // kept answers cover the rest
	}
	return list, err
}

// askFor asks for applications, with one list or one by one, and keeps the answers.
func (p *Provider) askFor(ctx context.Context, ids []string) error {
	if len(ids) == 0 {
		return nil
	}
	from := p.active
	if from == nil {
		found := p.probe(ctx, probeTime)
		list := claimants(found)
		if len(list) == 0 {
			return unavailable(found, nil)
		}
		from = list[0].server
	}
	wanted, list := len(ids), p.lists(len(ids))
	if list {
		ids = p.askForList(ctx, from, ids)
	}
	listed := wanted - len(ids)
	ids = ids[:min(len(ids), maxAsked)]
	spare := p.budget.spare()
	missed, err := p.askOneByOne(ctx, from, ids[:min(len(ids), spare)])
	if list && missed > listed {
		p.listAgain = p.now().Add(listPause)
	}
	if err == nil && spare < len(ids) {
		err = p.budget.spent()
	}
	return err
}

// askOneByOne asks for applications, several at a time. It stops at the first failure of the
// server, but continues after a failure about a single application. live is the number of
// applications that have not ended or cannot be read: a list of live applications should have
// contained them.
func (p *Provider) askOneByOne(ctx context.Context, from *server, ids []string) (live int, err error) {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	next := make(chan string)
	var mu sync.Mutex // guards answers, failed and live
	var failed error
	var all sync.WaitGroup
	var fallen faults
	for range min(atOnce, len(ids)) {
		all.Go(func() {
			defer fallen.catch(cancel)
			for id := range next {
				app, err := from.application(ctx, id)
				mu.Lock()
				if err == nil {
					p.keep(app)
				} else if failed == nil {
					failed = err
				}
				if err == nil && app.Known && !app.Ended || err != nil && isAboutOne(err) {
					live++
				}
				mu.Unlock()
				if err != nil && !isAboutOne(err) {
					cancel()
				}
			}
		})
	}
	for _, id := range ids {
		select {
		case next <- id:
			continue
		case <-ctx.Done():
		}
		break
	}
	close(next)
	all.Wait()
	fallen.rethrow()
	if failed == nil && ctx.Err() != nil {
		failed = from.notAsked(ctx)
	}
	if failed != nil && !isAboutOne(failed) {
		failed = &providers.UnavailableError{Answered: gaveAnswer(failed), Err: failed}
	}
	return live, failed
}

// isAboutOne reports whether a failure concerns only the requested application.
func isAboutOne(err error) bool {
	wrong, ok := errors.AsType[*ServerError](err)
	return ok && (wrong.Trouble == Senseless || wrong.Trouble == NotAllowed && wrong.Status == 403)
}

// application asks for one application. The error is a *ServerError.
func (s *server) application(ctx context.Context, id string) (providers.Application, error) {
	app := providers.Application{ID: id}
	var said applicationAnswer
	// The resource requests are most of a large application's answer. Versions that do not know
	// deSelects send them anyway.
	err := s.get(ctx, "/apps/"+url.PathEscape(id), values("deSelects", "resourceRequests"), func(body io.Reader) error {
		return readAnswer(body, func(r *reader, key []byte) error {
			if string(key) != "app" {
				return r.skip()
			}
			return r.object(func(key []byte) error { return said.field(r, key) })
		})
	})
	if wrong, ok := errors.AsType[*ServerError](err); ok && wrong.Trouble == NoSuch {
		return app, nil
	}
	if err != nil {
		return app, err
	}
	if said.id != id {
		return app, s.malformedAnswer(malformed("it is about " + s.forLog(said.id) + " and not about " + id))
	}
	return said.application(), nil
}

// application converts the answer to a providers.Application.
func (a *applicationAnswer) application() providers.Application {
	app := providers.Application{ID: a.id, Known: true, Queue: a.queue, User: a.user}
	switch strings.ToUpper(a.state) {
	case "FINISHED", "FAILED", "KILLED":
		app.Ended = true
		app.Failure, app.Diagnostics = a.failure()
	default:
		app.Allocated = a.allocated()
	}
	return app
}

// applicationAnswer is a decoded answer about one application.
type applicationAnswer struct {
	id, state, queue, user string
	// finalStatus is the result that the application reported itself, or that YARN determined.
	finalStatus, diagnostics string

	memory, cpu *int64 // MiB and cores; -1 before its first container and after its end
	usages      []usage
}

func (a *applicationAnswer) field(r *reader, key []byte) (err error) {
	switch string(key) {
	case "id":
		err = chosen(r, &a.id)
	case "state":
		a.state, err = r.text()
	case "queue":
		err = chosen(r, &a.queue)
	case "user":
		err = chosen(r, &a.user)
	case "finalStatus":
		a.finalStatus, err = r.text()
	case "diagnostics":
		a.diagnostics, err = r.passage()
	case "allocatedMB":
		a.memory, err = r.mebibytes()
	case "allocatedVCores":
		a.cpu, err = r.mebibytes()
	case "resourceInfo":
		err = r.object(func(key []byte) error {
			if string(key) != "resourceUsagesByPartition" {
				return r.skip()
			}
			return readList(r, "resourceUsagesByPartition", applicationUsage, func(u *usage) error {
				a.usages = append(a.usages, *u)
				return r.countedPartition(len(a.usages))
			})
		})
	default:
		err = r.skip()
	}
	return err
}

// chosen reads a name that a user of the cluster may have chosen. An unusable name becomes empty:
// no request can contain it.
func chosen(r *reader, at *string) error {
	name, err := r.name()
	*at = name.text
	return err
}

// mostPassage is the length to which diagnostics are truncated, in bytes. Some contain a whole
// stack trace, but the first lines have the essential part.
const mostPassage = 2048

// passage returns the beginning of the next text, with single spaces between words.
func (r *reader) passage() (string, error) {
	if r.next() != jsontext.KindString {
		return "", r.skip()
	}
	b, err := r.unquoted()
	return strings.ToValidUTF8(strings.Join(strings.Fields(string(b[:min(len(b), mostPassage)])), " "), "?"), err
}

// failure returns FAILED or KILLED, and the diagnostics, if the application ended without success.
func (a *applicationAnswer) failure() (status, diagnostics string) {
	for _, said := range []string{a.state, a.finalStatus} {
		if status := strings.ToUpper(said); status == "FAILED" || status == "KILLED" {
			return status, a.diagnostics
		}
	}
	return "", ""
}

// applicationUsage rounds down, unlike the figures of a queue: the coordinator subtracts this
// amount from the use of others.
func applicationUsage(r *reader, u *usage, key []byte) (err error) {
	switch string(key) {
	case "partitionName":
		u.partition, err = r.text()
	case "used":
		u.used, err = r.vector(rolePromised)
	case "reserved":
		u.reserved, err = r.vector(rolePromised)
	default:
		err = r.skip()
	}
	return err
}

// allocated returns the application's resources, by partition if the answer has partitions. It
// leaves out reserved resources, which errs on the safe side.
func (a *applicationAnswer) allocated() map[string]resource.Vector {
	list := map[string]resource.Vector{}
	for _, u := range a.usages {
		if u.used != nil {
			list[u.partition] = *u.used
		}
	}
	if len(list) > 0 {
		return list
	}
	var v resource.Vector
	if a.memory != nil {
		v = rolePromised.set(v, resource.Memory, *a.memory, mebibytes)
	}
	if a.cpu != nil {
		v = rolePromised.set(v, resource.CPU, *a.cpu, cores)
	}
	if !v.IsUnset() {
		list[providers.AnyPartition] = v
	}
	return list
}

// applicationID reports whether an id has YARN's form application_CLUSTER_NUMBER. Any other id must
// not become part of a path on the server.
func applicationID(id string) bool {
	rest, ok := strings.CutPrefix(id, "application_")
	cluster, number, found := strings.Cut(rest, "_")
	digits := func(s string) bool {
		return s != "" && len(s) <= 20 && strings.Trim(s, "0123456789") == ""
	}
	return ok && found && digits(cluster) && digits(number)
}
