package auth

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"net/netip"
	"os"
	"path/filepath"
	"sync"
	"sync/atomic"
	"syscall"
	"time"
	"unicode/utf8"

	"connectrpc.com/connect"
	"github.com/prometheus/client_golang/prometheus"

	"github.com/bursar/bursar/internal/access"
	"github.com/bursar/bursar/internal/regularfile"
)

const (
	// auditQueue is how many records may wait to be written.
	auditQueue = 1024
	// auditRefusals is how many of them may be of refused calls. The rest is for calls that change
	// something, so that a refused caller cannot crowd out the records of others.
	auditRefusals = auditQueue * 3 / 4
	// auditText is the length in bytes to which a text is cut. Callers choose many of them.
	auditText = 256
	// auditSweep is the least time between two records of omissions.
	auditSweep = 10 * time.Second
)

// AuditRecord is a line of the audit log, in JSON.
type AuditRecord struct {
	Time      time.Time `json:"time"`
	Event     string    `json:"event"` // "call", "left out" or "lost"
	Actor     string    `json:"actor,omitempty"`
	Role      string    `json:"role,omitempty"`
	Host      string    `json:"host,omitempty"` // the host whose agent forwarded the call
	Via       string    `json:"via,omitempty"`  // the agent or coordinator that forwarded it
	Peer      string    `json:"peer,omitempty"`
	Procedure string    `json:"procedure,omitempty"`
	Target    string    `json:"target,omitempty"`
	Code      string    `json:"code,omitempty"` // "ok", or the code of the error
	Message   string    `json:"message,omitempty"`
	RequestID string    `json:"requestId,omitempty"`
	Count     int64     `json:"count,omitempty"` // of omitted or lost records
}

// queuedRecord is a record in the queue.
type queuedRecord struct {
	AuditRecord

	refusal bool // counted in auditLog.waiting
}

// AuditOptions configure an AuditLog.
type AuditOptions struct {
	// Path is the file to write to; empty: the records go to Log.
	Path string
	// Log gets the faults.
	Log *slog.Logger
	// Registry registers the metrics.
	Registry prometheus.Registerer
	// Now returns the time of a record.
	Now func() time.Time
	// Suspicious reports whether an error is recorded for every caller, as often as refusals are.
	Suspicious func(error) bool
}

// AuditLog records every call that was refused because of its caller, and every administrative
// call, in a file or else the log. No call waits for it. It counts records that it cannot write,
// and writes the count as soon as it can write again. Any goroutine may use it.
type AuditLog struct {
	path       string
	log        *slog.Logger
	now        func() time.Time
	suspicious func(error) bool
	queue      chan queuedRecord
	stop       chan struct{}
	done       chan struct{}
	quota      *refusalQuota

	lost    prometheus.Counter
	refusal *prometheus.CounterVec
	waiting atomic.Int64 // records of refused calls in the queue
	missing atomic.Int64 // records lost since the last successful write
	failing atomic.Bool  // the file cannot be written

	once sync.Once // closes stop

	// Used only by the writing goroutine:
	file *os.File
	torn bool // the last line is incomplete
}

// NewAuditLog returns an audit log. Records wait in the queue until Open.
func NewAuditLog(o AuditOptions) *AuditLog {
	a := &AuditLog{
		path: o.Path, log: o.Log, now: o.Now, suspicious: o.Suspicious, queue: make(chan queuedRecord, auditQueue),
		stop: make(chan struct{}), done: make(chan struct{}), quota: newRefusalQuota(),
		lost: prometheus.NewCounter(prometheus.CounterOpts{
			Name: "bursar_audit_records_lost_total", Help: "Records that the audit log could not take.",
		}),
		refusal: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "bursar_refused_calls_total", Help: "Calls refused for who made them, by code.",
		}, []string{"code"}),
	}
	o.Registry.MustRegister(a.lost, a.refusal)
	for _, code := range []connect.Code{connect.CodeUnauthenticated, connect.CodePermissionDenied} {
		a.refusal.WithLabelValues(code.String())
	}
	return a
}

// Open starts the writer. It returns an error if it cannot open the file: a file that cannot be
// written at the start never will be.
func (a *AuditLog) Open() error {
	if a.path != "" {
		if err := a.reopen(); err != nil {
			return err
		}
	}
	go a.run()
	return nil
}

// Close writes the queued records and stops the writer.
func (a *AuditLog) Close() {
	a.once.Do(func() { close(a.stop) })
	<-a.done
}

// recordAnswer records a call's answer if its rule or its error requires it. err has its code.
func (a *AuditLog) recordAnswer(procedure string, c *Caller, message any, err error) {
	if code := connect.CodeOf(err); err != nil && (code == connect.CodePermissionDenied || code == connect.CodeUnauthenticated) {
		a.recordRefusal(procedure, c, message, err)
		return
	}
	if a.suspicious(err) {
		a.recordLimited(procedure, c, message, err)
		return
	}
	if access.RuleOf(procedure).Records(c.Actor.Effective()) {
		a.enqueue(queuedRecord{a.newRecord(procedure, c, message, err), false})
	}
}

// recordRefusal records a call that was refused because of its caller. c may be incomplete.
func (a *AuditLog) recordRefusal(procedure string, c *Caller, message any, err error) {
	a.refusal.WithLabelValues(connect.CodeOf(err).String()).Inc()
	a.recordLimited(procedure, c, message, err)
}

// recordLimited records a call within the quota of its address.
func (a *AuditLog) recordLimited(procedure string, c *Caller, message any, err error) {
	if !a.quota.allow(sourceOf(c.Peer), a.now()) {
		return
	}
	if a.waiting.Add(1) > auditRefusals {
		a.waiting.Add(-1)
		a.countLost(1)
		return
	}
	a.enqueue(queuedRecord{a.newRecord(procedure, c, message, err), true})
}

func (a *AuditLog) newRecord(procedure string, c *Caller, message any, err error) AuditRecord {
	r := AuditRecord{
		Time: a.now(), Event: "call", Actor: c.Actor.Name, Host: c.Actor.Host, Via: c.via(), Peer: c.Peer, Procedure: procedure, Code: "ok",
	}
	if c.Actor.Name != "" {
		r.Role = string(c.Actor.Effective())
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

// shortened cuts a text to auditText bytes, and marks the cut.
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

// sourceOf returns a peer without its port.
func sourceOf(peer string) string {
	if address, err := netip.ParseAddrPort(peer); err == nil {
		return address.Addr().Unmap().String()
	}
	return peer
}

func (a *AuditLog) enqueue(r queuedRecord) {
	select {
	case a.queue <- r:
	default:
		a.dequeued(r)
		a.countLost(1)
	}
}

// dequeued updates the count of waiting refusals.
func (a *AuditLog) dequeued(r queuedRecord) {
	if r.refusal {
		a.waiting.Add(-1)
	}
}

func (a *AuditLog) countLost(n int64) {
	a.lost.Add(float64(n))
	a.missing.Add(n)
}

// Warnings warns if records are being lost.
func (a *AuditLog) Warnings() []string {
	if n := a.missing.Load(); n > 0 || a.failing.Load() {
		return []string{fmt.Sprintf("auditLog: %d records could not be written: look at the disk, and at the log", n)}
	}
	return nil
}

func (a *AuditLog) run() {
	defer close(a.done)
	sweep := time.NewTicker(auditSweep)
	defer sweep.Stop()
	for {
		select {
		case r := <-a.queue:
			a.dequeued(r)
			a.write(r.AuditRecord)
		case <-sweep.C:
			a.writeLeftOut()
		case <-a.stop:
			for {
				select {
				case r := <-a.queue:
					a.dequeued(r)
					a.write(r.AuditRecord)
					continue
				default:
				}
				a.writeLeftOut()
				if a.file != nil {
					_ = a.file.Close()
				}
				return
			}
		}
	}
}

// writeLeftOut writes the counts of omitted records.
func (a *AuditLog) writeLeftOut() {
	now := a.now()
	for source, n := range a.quota.takeLeftOut(now) {
		a.write(AuditRecord{Time: now, Event: "left out", Peer: source, Count: n})
	}
}

// write writes a record, and before it the number of lost records.
func (a *AuditLog) write(r AuditRecord) {
	if n := a.missing.Load(); n > 0 && a.writeLine(AuditRecord{Time: r.Time, Event: "lost", Count: n}) {
		a.missing.Add(-n)
	}
	if !a.writeLine(r) {
		a.countLost(1)
	}
}

// writeLine writes one record and reports whether it succeeded.
func (a *AuditLog) writeLine(r AuditRecord) bool {
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

func (a *AuditLog) append(text []byte) error {
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

// reopen opens the file at the path if it is not the open file: log rotation may have moved that.
func (a *AuditLog) reopen() error {
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
	flags, err := guardAuditLog(a.path)
	if err != nil {
		return err
	}
	next, err := os.OpenFile(a.path, os.O_WRONLY|os.O_APPEND|os.O_CREATE|flags, 0o600)
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

// GuardAuditLog refuses a path that other users could redirect to another file. It refuses a link
// of another user. If this process runs as root, it also refuses a file or a parent folder that
// does not belong to root or that every user can write to. It creates nothing.
func GuardAuditLog(path string) error {
	_, err := guardAuditLog(path)
	return err
}

// guardAuditLog returns O_NOFOLLOW, unless the path is a trusted link.
func guardAuditLog(path string) (flags int, err error) {
	uid := uint32(os.Geteuid()) //nolint:gosec // a uid
	if err := regularfile.GuardedLink(path, uid); err != nil {
		return 0, err //nolint:wrapcheck // it names the file
	}
	if info, err := os.Lstat(path); err != nil || info.Mode().Type() != fs.ModeSymlink {
		flags = syscall.O_NOFOLLOW
	}
	if uid != 0 {
		return flags, nil
	}
	if err := regularfile.GuardedIn("/var/log", filepath.Dir(path), 0); err != nil {
		return 0, err //nolint:wrapcheck // it names the folder
	}
	if info, err := os.Stat(path); err == nil && !info.Mode().IsRegular() {
		return flags, nil // a terminal or a pipe may have any owner
	}
	return flags, regularfile.GuardedFile(path, 0) //nolint:wrapcheck // it names the file
}
