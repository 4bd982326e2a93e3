package auth

import (
	"bufio"
	"bytes"
	"encoding/json"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"connectrpc.com/connect"
	"github.com/google/go-cmp/cmp"
	"github.com/prometheus/client_golang/prometheus"

	"github.com/bursar/bursar/internal/identity"
	bursarv1 "github.com/bursar/bursar/proto/bursar/v1"
)

func testAuditLog(path string, log *slog.Logger) *AuditLog {
	return NewAuditLog(AuditOptions{
		Path: path, Log: log, Registry: prometheus.NewRegistry(), Now: time.Now, Suspicious: func(error) bool { return false },
	})
}

// records reads an audit log.
func records(t *testing.T, path string) []AuditRecord {
	t.Helper()
	file, err := os.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	defer file.Close()
	var list []AuditRecord
	for scan := bufio.NewScanner(file); scan.Scan(); {
		var r AuditRecord
		if err := json.Unmarshal(scan.Bytes(), &r); err != nil {
			t.Fatalf("%s: %v", scan.Text(), err)
		}
		list = append(list, r)
	}
	return list
}

func TestRefusalsAreBoundedByAddress(t *testing.T) {
	q, now := newRefusalQuota(), time.Unix(1e9, 0)
	take := func(source string, n int) (taken int) {
		for range n {
			if q.allow(source, now) {
				taken++
			}
		}
		return taken
	}
	if got := take("a", 60); got != refusalBurst {
		t.Errorf("%d of 60 at once", got)
	}
	if got := take("b", 1); got != 1 {
		t.Error("one address has taken from another")
	}
	now = now.Add(3 * time.Second)
	if got := take("a", 60); got != 3*refusalRate {
		t.Errorf("%d after 3 s", got)
	}
	if diff := cmp.Diff(map[string]int64{"a": 10 + 54}, q.takeLeftOut(now)); diff != "" {
		t.Error(diff)
	}
	if len(q.takeLeftOut(now)) != 0 {
		t.Error("told twice")
	}
	for i := range 2 * maxSources {
		take(fmt.Sprint(i), 1)
	}
	if len(q.sources) > maxSources+1 {
		t.Errorf("%d addresses are kept", len(q.sources))
	}
	q.takeLeftOut(now)
	now = now.Add(time.Hour)
	q.takeLeftOut(now)
	if len(q.sources) != 0 {
		t.Errorf("%d quiet addresses are kept", len(q.sources))
	}
}

func TestLostRecordsAreToldOnceSomethingCanBeWritten(t *testing.T) {
	path := filepath.Join(t.TempDir(), "audit.log")
	a := testAuditLog(path, slog.New(slog.DiscardHandler))
	c := &Caller{Actor: identity.Local(), Maker: identity.Local(), Peer: "pipe"}
	const calls = auditQueue + 7
	for range calls { // nobody writes yet
		a.recordAnswer("/bursar.v1.QuotaService/Put", c, nil, nil)
	}
	if list := a.Warnings(); len(list) != 1 || !strings.Contains(list[0], "7 records") {
		t.Errorf("warnings %q", list)
	}
	if err := a.Open(); err != nil {
		t.Fatal(err)
	}
	a.Close()
	got := records(t, path)
	if len(got) != auditQueue+1 || got[0].Event != "lost" || got[0].Count != 7 || got[1].Event != "call" {
		t.Errorf("%d records, the first %+v", len(got), got[0])
	}
	if list := a.Warnings(); len(list) != 0 {
		t.Errorf("warnings %q", list)
	}
}

// A flood of refused calls, from more addresses than have bounds, must not hide an administrator's
// calls.
func TestRefusedCallsLeaveRoomForAdministrativeOnes(t *testing.T) {
	path := filepath.Join(t.TempDir(), "audit.log")
	a := testAuditLog(path, slog.New(slog.DiscardHandler))
	admin := &Caller{Actor: identity.Local(), Maker: identity.Local(), Peer: "pipe"}
	const flood, calls = 2 * auditQueue, auditQueue - auditRefusals
	for i := range flood { // nobody writes yet
		stranger := &Caller{Peer: fmt.Sprintf("10.0.%d.%d:1", i/256, i%256)}
		a.recordRefusal("/nothing", stranger, nil, connect.NewError(connect.CodeUnauthenticated, nil))
	}
	for range calls {
		a.recordAnswer("/bursar.v1.QuotaService/Put", admin, nil, nil)
	}
	count := func() (ok, refused int, lost int64) {
		if err := a.Open(); err != nil {
			t.Fatal(err)
		}
		a.Close()
		for _, r := range records(t, path) {
			switch {
			case r.Event == "lost":
				lost += r.Count
			case r.Code == "ok":
				ok++
			default:
				refused++
			}
		}
		return ok, refused, lost
	}
	ok, refused, lost := count()
	if ok != calls || refused != auditRefusals || lost != flood-auditRefusals {
		t.Errorf("%d of %d administrative calls, %d refused ones written down, %d lost", ok, calls, refused, lost)
	}
	if n := a.waiting.Load(); n != 0 {
		t.Errorf("%d refused calls are said to wait in an empty queue", n)
	}
}

func TestWithoutAFileTheLogTakesTheRecords(t *testing.T) {
	var log bytes.Buffer // read once the writer has ended
	a := testAuditLog("", slog.New(slog.NewJSONHandler(&log, nil)))
	if err := a.Open(); err != nil {
		t.Fatal(err)
	}
	a.recordAnswer("/bursar.v1.HostService/Drain", &Caller{Actor: identity.Local(), Maker: identity.Local(), Peer: "127.0.0.1:5"}, &bursarv1.DrainRequest{HostId: "h1"}, nil)
	a.Close()
	for _, want := range []string{`"audit":true`, `"procedure":"/bursar.v1.HostService/Drain"`, `"target":"host h1"`, `"code":"ok"`} {
		if !strings.Contains(log.String(), want) {
			t.Errorf("want %s in %s", want, log.String())
		}
	}
	wrong := testAuditLog("/nowhere/audit.log", slog.New(slog.DiscardHandler))
	if err := wrong.Open(); err == nil || !strings.Contains(err.Error(), "/nowhere/audit.log") {
		t.Errorf("%v", err)
	}
}
