package coordinator

import (
	"bufio"
	"encoding/json"
	"errors"
	"io"
	"log/slog"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"connectrpc.com/connect"
	"github.com/google/go-cmp/cmp"
	"github.com/prometheus/client_golang/prometheus"

	"github.com/bursar/bursar/coordinator/auth"
	"github.com/bursar/bursar/internal/identity"
	bursarv1 "github.com/bursar/bursar/proto/bursar/v1"
)

// records reads the audit log.
func (c *authServer) records(t *testing.T) []auth.AuditRecord {
	t.Helper()
	file, err := os.Open(c.config.AuditLog)
	if err != nil {
		t.Fatal(err)
	}
	defer file.Close()
	var list []auth.AuditRecord
	for scan := bufio.NewScanner(file); scan.Scan(); {
		var r auth.AuditRecord
		if err := json.Unmarshal(scan.Bytes(), &r); err != nil {
			t.Fatalf("%s: %v", scan.Text(), err)
		}
		list = append(list, r)
	}
	return list
}

func TestRefusedAndAdministrativeCallsAreWrittenDown(t *testing.T) {
	c := newAuthServer(t)
	c.addHosts(t)
	ctx := t.Context()
	ops, root, reader := c.visit(t, "ops"), c.visit(t, "root"), c.visit(t, "reader")
	id := c.visit(t, "agent1", identity.Actor{Name: "alice@h1", Users: []string{"alice"}}).mustAllocate(t, "h1", "alice")
	for _, err := range []error{
		second(reader.cluster.Status(ctx, &bursarv1.StatusRequest{})), // not written down
		second(root.quotas.Put(ctx, &bursarv1.PutRequest{Quota: &bursarv1.Quota{Selector: map[string]string{"user": "*", "creator": "IDE"}, Limit: memory(gib)}})),
		second(ops.hosts.Cordon(ctx, &bursarv1.CordonRequest{HostId: "h2", Reason: "disk"})),
		second(ops.allocations.Release(ctx, &bursarv1.ReleaseRequest{Id: id})),
	} {
		if err != nil {
			t.Fatal(err)
		}
	}
	_, _ = reader.quotas.Delete(ctx, &bursarv1.DeleteRequest{})
	_, _ = c.visit(t, "").hosts.Drain(ctx, &bursarv1.DrainRequest{HostId: "h1"})
	_, _ = ops.hosts.Uncordon(ctx, &bursarv1.UncordonRequest{HostId: "nowhere"})
	_, _ = c.visit(t, "agent1", identity.Actor{Name: "alice@h1", Users: []string{"alice"}}).allocations.Allocate(ctx, &bursarv1.AllocateRequest{
		RequestId: "req-1", Labels: map[string]string{"user": "bob"}, Resource: memory(mib), Host: &bursarv1.HostWishes{Id: "h1"},
	})
	c.stop()
	got := c.records(t)
	for i := range got {
		if got[i].Time.IsZero() || !strings.HasPrefix(got[i].Peer, "127.0.0.1:") {
			t.Errorf("without time or address: %+v", got[i])
		}
		if (got[i].Code == "ok") != (got[i].Message == "") {
			t.Errorf("the message does not go with the code: %+v", got[i])
		}
		got[i].Time, got[i].Peer, got[i].Message = time.Time{}, "", ""
	}
	const service = "/bursar.v1."
	want := []auth.AuditRecord{
		{Event: "call", Actor: "root", Role: "admin", Procedure: service + "QuotaService/Put", Target: "quota creator=IDE,user=*", Code: "ok"},
		{Event: "call", Actor: "ops", Role: "operator", Procedure: service + "HostService/Cordon", Target: "host h2", Code: "ok"},
		{Event: "call", Actor: "ops", Role: "operator", Procedure: service + "AllocationService/Release", Target: "allocation " + id, Code: "ok"},
		{Event: "call", Actor: "reader", Role: "reader", Procedure: service + "QuotaService/Delete", Code: "permission_denied"},
		{Event: "call", Procedure: service + "HostService/Drain", Code: "unauthenticated"},
		{Event: "call", Actor: "ops", Role: "operator", Procedure: service + "HostService/Uncordon", Target: "host nowhere", Code: "not_found"},
		{Event: "call", Actor: "alice@h1", Role: "submitter", Host: "h1", Via: "agent1", Procedure: service + "AllocationService/Allocate", Target: "user bob", Code: "permission_denied", RequestID: "req-1"},
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
	if info, err := os.Stat(c.config.AuditLog); err != nil || info.Mode().Perm() != 0o600 {
		t.Errorf("mode %v, %v", info.Mode(), err)
	}
}

func second[T any](_ T, err error) error { return err }

func TestAFloodOfRefusedCallsDoesNotFillTheDisk(t *testing.T) {
	c := newAuthServer(t)
	nobody, reader := c.visit(t, ""), c.visit(t, "reader")
	const flood = 400
	for range flood {
		_, _ = nobody.cluster.Status(t.Context(), &bursarv1.StatusRequest{})
	}
	if _, err := reader.cluster.Status(t.Context(), &bursarv1.StatusRequest{}); err != nil {
		t.Fatal(err)
	}
	c.stop()
	written, leftOut := 0, int64(0)
	for _, r := range c.records(t) {
		switch r.Event {
		case "call":
			written++
		case "left out":
			leftOut += r.Count
			if r.Peer != "127.0.0.1" {
				t.Errorf("left out of %q", r.Peer)
			}
		}
	}
	// What is written beyond the burst came while the flood lasted: it was far from a minute.
	if written < refusalBurst || written > refusalBurst+60*refusalRate || int64(written)+leftOut != flood {
		t.Errorf("%d written and %d left out, of %d", written, leftOut, flood)
	}
}

func TestTheAuditLogIsMadeAnewWhenItWasRotatedAway(t *testing.T) {
	c := newAuthServer(t)
	nobody := c.visit(t, "")
	refuse := func() { _, _ = nobody.cluster.Status(t.Context(), &bursarv1.StatusRequest{}) }
	count := func() int {
		if _, err := os.Stat(c.config.AuditLog); err != nil {
			return 0
		}
		return len(c.records(t))
	}
	refuse()
	eventually(t, "it is written", func() bool { return count() == 1 })
	if err := os.Rename(c.config.AuditLog, c.config.AuditLog+".1"); err != nil {
		t.Fatal(err)
	}
	refuse()
	eventually(t, "it is made again", func() bool { return count() == 1 })
}

func TestAFullDiskKeepsNobodyWaitingAndShows(t *testing.T) {
	c := newAuthServer(t, func(config *Config) { config.AuditLog = "/dev/full" })
	nobody, reader := c.visit(t, ""), c.visit(t, "reader")
	for range 3 {
		_, err := nobody.cluster.Status(t.Context(), &bursarv1.StatusRequest{})
		expect(t, "nobody", err, connect.CodeUnauthenticated, "no credentials")
	}
	eventually(t, "Status warns", func() bool {
		res, err := reader.cluster.Status(t.Context(), &bursarv1.StatusRequest{})
		return err == nil && strings.Contains(strings.Join(res.GetWarnings(), "\n"), "auditLog: 3 records could not be written")
	})
	res, err := reader.http.Get(c.url + "/metrics")
	if err != nil {
		t.Fatal(err)
	}
	defer res.Body.Close()
	text, err := io.ReadAll(res.Body)
	for _, want := range []string{"bursar_audit_records_lost_total 3\n", `bursar_refused_calls_total{code="unauthenticated"} 3`} {
		if err != nil || !strings.Contains(string(text), want) {
			t.Errorf("no %s in /metrics, %v", want, err)
		}
	}
}

func TestTextsThatCallersChooseAreCut(t *testing.T) {
	c := newAuthServer(t)
	long := strings.Repeat("é", 1000)
	res, err := c.visit(t, "").http.Get(c.url + "/x" + long)
	if err != nil {
		t.Fatal(err)
	}
	if err := res.Body.Close(); err != nil || res.StatusCode != http.StatusUnauthorized {
		t.Errorf("%d, %v", res.StatusCode, err)
	}
	_, err = c.visit(t, "reader", identity.Actor{Name: "x", Host: long}).hosts.Cordon(t.Context(), &bursarv1.CordonRequest{HostId: "h1"})
	expect(t, "as another", err, connect.CodePermissionDenied, "speak for others")
	_, err = c.visit(t, "alice").allocate(t, "", strings.Repeat("é", 120))
	expect(t, "as somebody", err, connect.CodePermissionDenied, "may not")
	_, err = c.visit(t, "c1", identity.Actor{Name: "y", Role: identity.Reader, Host: long}).hosts.Cordon(t.Context(), &bursarv1.CordonRequest{HostId: "h1"})
	expect(t, "from a host with a long name", err, connect.CodePermissionDenied, "with the role reader")
	c.stop()
	list := c.records(t)
	if len(list) != 4 {
		t.Fatalf("%d records", len(list))
	}
	for _, r := range list {
		for _, text := range []string{r.Actor, r.Role, r.Host, r.Via, r.Peer, r.Procedure, r.Target, r.Message, r.RequestID} {
			if len(text) > 256 || strings.ContainsRune(text, '\uFFFD') {
				t.Errorf("%d bytes: %s", len(text), text)
			}
		}
	}
	if p := list[0].Procedure; !strings.HasPrefix(p, "/xé") || !strings.HasSuffix(p, "é…") || len(p) < 250 {
		t.Errorf("procedure %q", p)
	}
}

// What a page of another site tries in somebody's browser is refused before anybody is asked for.
func TestPagesOfOtherSitesAreWrittenDown(t *testing.T) {
	c := newAuthServer(t)
	request, err := http.NewRequestWithContext(t.Context(), http.MethodPost, c.url+"/bursar.v1.HostService/Drain", strings.NewReader("{}"))
	if err != nil {
		t.Fatal(err)
	}
	request.Header.Set("Content-Type", "application/json")
	request.Header.Set("Origin", "https://evil.example")
	request.Header.Set("Sec-Fetch-Site", "cross-site")
	res, err := c.visit(t, "ops").http.Do(request)
	if err != nil {
		t.Fatal(err)
	}
	if err := res.Body.Close(); err != nil || res.StatusCode != http.StatusForbidden {
		t.Errorf("%d, %v", res.StatusCode, err)
	}
	c.stop()
	list := c.records(t)
	if len(list) != 1 || list[0].Procedure != "/bursar.v1.HostService/Drain" || list[0].Code != "permission_denied" || list[0].Message == "" {
		t.Errorf("%+v", list)
	}
}

// An agent that ends a leadership by the epoch that it says it has seen, or tries to.
func TestClaimsOfLaterEpochsAreWrittenDown(t *testing.T) {
	c := newAuthServer(t)
	c.addHosts(t)
	agent := c.visit(t, "agent1")
	report := func() error {
		epoch := uint64(0)
		eventually(t, "somebody leads", func() bool {
			status, err := c.visit(t, "reader").cluster.Status(t.Context(), &bursarv1.StatusRequest{})
			epoch = status.GetEpoch()
			return err == nil
		})
		_, err := agent.hosts.Sync(t.Context(), &bursarv1.SyncRequest{HostId: "h1", Incarnation: 1, Sequence: 9, BootId: "boot", Epoch: epoch + 1})
		return err
	}
	const claims = 3 // a host may end so many leaderships in a row
	for range claims {
		expect(t, "a later epoch", report(), connect.CodeUnavailable, "host h1: not leading at the moment")
	}
	expect(t, "once more", report(), connect.CodeInvalidArgument, "the word of this host has ended enough leaderships")
	c.stop()
	var codes []string
	for _, r := range c.records(t) {
		if r.Actor != "agent1" || r.Target != "host h1" || r.Procedure != "/bursar.v1.HostService/Sync" {
			t.Errorf("%+v", r)
		}
		codes = append(codes, r.Code)
	}
	if got, want := strings.Join(codes, " "), strings.Repeat("unavailable ", claims)+"invalid_argument"; got != want {
		t.Errorf("%s; want %s", got, want)
	}
}

func TestAFileThatCannotBeWrittenIsNamedByItsField(t *testing.T) {
	quiet := slog.New(slog.DiscardHandler)
	err := openAuditLog(newAuditLog("/nowhere/audit.log", quiet, prometheus.NewRegistry()), "/nowhere/audit.log")
	if _, named := errors.AsType[*ConfigError](err); !named || !strings.Contains(err.Error(), `auditLog: "/nowhere/audit.log": want a file that can be written`) {
		t.Errorf("%v", err)
	}
}

// The file is where the configuration says, not where another user's link leads.
func TestTheAuditLogIsNotWrittenWhereAnotherUserLikes(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Fatal("this test plays several users: it needs root")
	}
	const stranger = 12345
	for name, test := range map[string]struct {
		spoil func(dir, file, target string) error
		want  string // empty: it is fine
	}{
		"root's":           {func(string, string, string) error { return nil }, ""},
		"a link of root's": {func(_, file, target string) error { return os.Symlink(target, file) }, ""},
		"another's link": {func(_, file, target string) error {
			return errors.Join(os.Symlink(target, file), os.Lchown(file, stranger, stranger))
		}, "audit.log is owned by uid 12345"},
		"in another's": {func(dir, _, _ string) error { return os.Chown(dir, stranger, stranger) }, "want a folder of uid 0"},
		"another's": {func(_, file, _ string) error {
			return errors.Join(os.WriteFile(file, nil, 0o600), os.Chown(file, stranger, stranger))
		}, "want a file of uid 0"},
		"in everybody's": {func(dir, _, _ string) error { return os.Chmod(dir, 0o777) }, "want that nobody else may write to it"},
	} {
		t.Run(name, func(t *testing.T) {
			target := filepath.Join(t.TempDir(), "precious")
			dir := t.TempDir()
			file := filepath.Join(dir, "audit.log")
			if err := errors.Join(os.WriteFile(target, nil, 0o600), test.spoil(dir, file, target)); err != nil {
				t.Fatal(err)
			}
			log := newAuditLog(file, slog.New(slog.DiscardHandler), prometheus.NewRegistry())
			opened := openAuditLog(log, file)
			if opened == nil {
				log.Close()
			}
			for _, err := range []error{opened, checkAuditLog(file)} {
				_, named := errors.AsType[*ConfigError](err)
				if test.want == "" && err != nil || test.want != "" && (!named || !strings.Contains(err.Error(), test.want)) {
					t.Errorf("%v: want %q", err, test.want)
				}
			}
		})
	}
}
