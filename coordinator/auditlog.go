package coordinator

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"net/netip"
	"os"
	"sync"
	"sync/atomic"
	"time"
	"unicode/utf8"

	"connectrpc.com/connect"
	"github.com/prometheus/client_golang/prometheus"

	"github.com/bursar/bursar/internal/access"
)

const (
	// auditQueue is how many records may wait to be written.
	auditQueue = 1024
	// auditRefusals is how many of them may be of refused calls: the rest is kept for those that change something, so that nobody who
	// is not let in can crowd out what somebody else does.
	auditRefusals = auditQueue * 3 / 4
	// auditText is how many bytes of a text are written down. Callers choose many of them.
	auditText = 256
	// auditSweep is how often what was left out is told, at most.
	auditSweep = 10 * time.Second
)

// auditRecord is a line of the audit log.
type auditRecord struct {
	Time      time.Time `json:"time"`
	Event     string    `json:"event"` // "call", "left out" or "lost"
	Actor     string    `json:"actor,omitempty"`
	Role      string    `json:"role,omitempty"`
	Host      string    `json:"host,omitempty"` // through whose agent it came
	Via       string    `json:"via,omitempty"`  // who passed it on
	Peer      string    `json:"peer,omitempty"`
	Procedure string    `json:"procedure,omitempty"`
	Target    string    `json:"target,omitempty"`
	Code      string    `json:"code,omitempty"` // "ok", or that of the error
	Message   string    `json:"message,omitempty"`
	RequestID string    `json:"requestId,omitempty"`
	Count     int64     `json:"count,omitempty"` // of records that were left out or lost
}

// queuedRecord is one that waits to be written.
type queuedRecord struct {
	auditRecord

	refusal bool // counted in auditLog.waiting
}

// auditLog writes down every call that was refused for who made it, and every one that administers, into a file or else the log. No
// call waits for it: what cannot be written is counted, and said as soon as something can be.
type auditLog struct {
	path  string
	log   *slog.Logger
	now   func() time.Time
	queue chan queuedRecord
	stop  chan struct{}
	done  chan struct{}
	quota *refusalQuota

	lost    prometheus.Counter
	refusal *prometheus.CounterVec
	waiting atomic.Int64 // records of refused calls in the queue
	missing atomic.Int64 // records lost since the last one that was written
	failing atomic.Bool  // the file cannot be written

	once sync.Once // closes stop

	// Of the writing goroutine alone:
	file *os.File
	torn bool // the last line was not written to its end
}

func newAuditLog(path string, log *slog.Logger, registry prometheus.Registerer, now func() time.Time) *auditLog {
	a := &auditLog{
		path: path, log: log, now: now, queue: make(chan queuedRecord, auditQueue),
		stop: make(chan struct{}), done: make(chan struct{}), quota: newRefusalQuota(),
		lost: prometheus.NewCounter(prometheus.CounterOpts{
			Name: "bursar_audit_records_lost_total", Help: "Records that the audit log could not take.",
		}),
		refusal: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "bursar_refused_calls_total", Help: "Calls refused for who made them, by code.",
		}, []string{"code"}),
	}
	registry.MustRegister(a.lost, a.refusal)
	for _, code := range []connect.Code{connect.CodeUnauthenticated, connect.CodePermissionDenied} {
		a.refusal.WithLabelValues(code.String())
	}
	return a
}

// open starts writing. The error is a *ConfigError: a file that cannot be written at the start never will be.
func (a *auditLog) open() error {
	if a.path != "" {
		if err := a.reopen(); err != nil {
			return &ConfigError{"auditLog", a.path, "a file that can be written (" + err.Error() + ")"}
		}
	}
	go a.run()
	return nil
}

// close writes what is waiting and ends.
func (a *auditLog) close() {
	a.once.Do(func() { close(a.stop) })
	<-a.done
}

// answered takes note of a call's answer, if it is worth it. err has its code.
func (a *auditLog) answered(procedure string, c *caller, message any, err error) {
	if code := connect.CodeOf(err); err != nil && (code == connect.CodePermissionDenied || code == connect.CodeUnauthenticated) {
		a.refused(procedure, c, message, err)
		return
	}
	if _, claim := errors.AsType[*ClaimError](err); claim { // it may end the leadership: who said so?
		a.bounded(procedure, c, message, err)
		return
	}
	if access.RuleOf(procedure).Records(c.actor.Effective()) {
		a.put(queuedRecord{a.record(procedure, c, message, err), false})
	}
}

// refused takes note of a call that was refused for who made it. c says as much of that as is known.
func (a *auditLog) refused(procedure string, c *caller, message any, err error) {
	a.refusal.WithLabelValues(connect.CodeOf(err).String()).Inc()
	a.bounded(procedure, c, message, err)
}

// bounded takes note of what one address may cause only so often.
func (a *auditLog) bounded(procedure string, c *caller, message any, err error) {
	if !a.quota.take(sourceOf(c.peer), a.now()) {
		return
	}
	if a.waiting.Add(1) > auditRefusals {
		a.waiting.Add(-1)
		a.miss(1)
		return
	}
	a.put(queuedRecord{a.record(procedure, c, message, err), true})
}

func (a *auditLog) record(procedure string, c *caller, message any, err error) auditRecord {
	r := auditRecord{
		Time: a.now(), Event: "call", Actor: c.actor.Name, Host: c.actor.Host, Via: c.via(), Peer: c.peer, Procedure: procedure, Code: "ok",
	}
	if c.actor.Name != "" {
		r.Role = string(c.actor.Effective())
	}
	r.Target, r.RequestID = targetOf(message)
	if err != nil {
		r.Code = connect.CodeOf(err).String()
		if wrong, ok := errors.AsType[*connect.Error](err); ok {
			r.Message = wrong.Message()
		}
	}
	for _, text := range []*string{&r.Actor, &r.Role, &r.Host, &r.Via, &r.Peer, &r.Procedure, &r.Target, &r.Message, &r.RequestID} {
		*text = shortened(*text)
	}
	return r
}

// shortened is a text of at most auditText bytes, with what is missing shown.
func shortened(text string) string {
	if len(text) <= auditText {
		return text
	}
	const more = "…"
	end := auditText - len(more)
	for end > 0 && !utf8.RuneStart(text[end]) {
		end--
	}
	return text[:end] + more
}

// sourceOf is a peer without its port.
func sourceOf(peer string) string {
	if address, err := netip.ParseAddrPort(peer); err == nil {
		return address.Addr().Unmap().String()
	}
	return peer
}

func (a *auditLog) put(r queuedRecord) {
	select {
	case a.queue <- r:
	default:
		a.leave(r)
		a.miss(1)
	}
}

// leave takes a record out of the count of those that wait.
func (a *auditLog) leave(r queuedRecord) {
	if r.refusal {
		a.waiting.Add(-1)
	}
}

func (a *auditLog) miss(n int64) {
	a.lost.Add(float64(n))
	a.missing.Add(n)
}

// warnings says that records are being lost.
func (a *auditLog) warnings() []string {
	if n := a.missing.Load(); n > 0 || a.failing.Load() {
		return []string{fmt.Sprintf("auditLog: %d records could not be written: look at the disk, and at the log", n)}
	}
	return nil
}

func (a *auditLog) run() {
	defer close(a.done)
	sweep := time.NewTicker(auditSweep)
	defer sweep.Stop()
	for {
		select {
		case r := <-a.queue:
			a.leave(r)
			a.write(r.auditRecord)
		case <-sweep.C:
			a.sweep()
		case <-a.stop:
			for {
				select {
				case r := <-a.queue:
					a.leave(r)
					a.write(r.auditRecord)
					continue
				default:
				}
				a.sweep()
				if a.file != nil {
					_ = a.file.Close()
				}
				return
			}
		}
	}
}

// sweep tells what was left out.
func (a *auditLog) sweep() {
	now := a.now()
	for source, n := range a.quota.leftOut(now) {
		a.write(auditRecord{Time: now, Event: "left out", Peer: source, Count: n})
	}
}

// write puts a record down, and before it how many are missing.
func (a *auditLog) write(r auditRecord) {
	if n := a.missing.Load(); n > 0 && a.line(auditRecord{Time: r.Time, Event: "lost", Count: n}) {
		a.missing.Add(-n)
	}
	if !a.line(r) {
		a.miss(1)
	}
}

// line writes one record and reports whether it did.
func (a *auditLog) line(r auditRecord) bool {
	if a.path == "" {
		a.log.Info("audit", "audit", true, "record", r)
		return true
	}
	text, err := json.Marshal(r)
	if err == nil {
		err = a.append(append(text, '\n'))
	}
	if failed := err != nil; a.failing.Swap(failed) != failed {
		if failed {
			a.log.Error("the audit log cannot be written: its records are lost, and counted", "file", a.path, "error", err)
		} else {
			a.log.Info("the audit log is written again", "file", a.path)
		}
	}
	return err == nil
}

func (a *auditLog) append(text []byte) error {
	if err := a.reopen(); err != nil {
		return err
	}
	if a.torn {
		text = append([]byte("\n"), text...)
	}
	n, err := a.file.Write(text)
	a.torn = a.torn && n == 0 || n > 0 && err != nil
	return err //nolint:wrapcheck // it names the file
}

// reopen opens the file at the path, unless that is the one which is open: it may have been rotated away.
func (a *auditLog) reopen() error {
	if a.file != nil {
		there, err := os.Stat(a.path)
		if err == nil {
			open, statErr := a.file.Stat()
			if statErr == nil && os.SameFile(there, open) {
				return nil
			}
		} else if !errors.Is(err, fs.ErrNotExist) {
			return err //nolint:wrapcheck // it names the file
		}
	}
	next, err := os.OpenFile(a.path, os.O_WRONLY|os.O_APPEND|os.O_CREATE, 0o600)
	if err != nil {
		return err //nolint:wrapcheck // it names the file
	}
	if a.file != nil {
		_ = a.file.Close()
		a.torn = false
	}
	a.file = next
	return nil
}
