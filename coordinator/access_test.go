package coordinator

import (
	"io"
	"net/http"
	"path/filepath"
	"strings"
	"testing"

	"connectrpc.com/connect"

	"github.com/bursar/bursar/coordinator/election"
	"github.com/bursar/bursar/internal/access"
	"github.com/bursar/bursar/internal/credential"
	"github.com/bursar/bursar/internal/identity"
	bursarv1 "github.com/bursar/bursar/proto/bursar/v1"
	"github.com/bursar/bursar/proto/bursar/v1/bursarv1connect"
	"github.com/bursar/bursar/test/certs"
)

func TestCallersAreKnownByTokenOrCertificate(t *testing.T) {
	c := newAuthServer(t)
	status := func(v *visitor) error {
		_, err := v.cluster.Status(t.Context(), &bursarv1.StatusRequest{})
		return err
	}
	for _, member := range members() {
		if err := status(c.visit(t, member)); err != nil {
			t.Errorf("%s: %v", member, err)
		}
	}
	for _, role := range identity.Roles() {
		if err := status(c.certified(t, certs.Request{Name: "someone", Organization: []string{"bursar:" + string(role)}})); err != nil {
			t.Errorf("a certificate for %s: %v", role, err)
		}
	}
	expect(t, "nothing shown", status(c.visit(t, "")), connect.CodeUnauthenticated, "the call carries no credentials: want a token (header Authorization: Bearer TOKEN")
	c.tokens["stranger"] = access.NewToken()
	expect(t, "unknown token", status(c.visit(t, "stranger")), connect.CodeUnauthenticated, "the token is not known: never made, or revoked: want one of an identity in the coordinator's file")
	expect(t, "no role", status(c.certified(t, certs.Request{Name: "alice"})), connect.CodeUnauthenticated, `want one with the role in its subject, such as O = "bursar:reader"`)
	other := certs.New(t, "other")
	config := credential.ClientTLS{CA: filepath.Join(c.dir, "ca.pem")}
	config.Cert, config.Key = other.Issue(t, certs.Request{Name: "root", Organization: []string{"bursar:admin"}}).Files(t, t.TempDir(), "client")
	expect(t, "another CA", status(c.visitWith(t, config, nil)), connect.CodeUnauthenticated, "want one from a CA in the server's tls.clientCA")
	wrong := c.visitWith(t, credential.ClientTLS{CA: other.File(t, t.TempDir(), "ca.pem")}, nil)
	if err := credential.Describe(status(wrong)); err == nil || !strings.Contains(err.Error(), "want tls.ca to name the file of the CA") {
		t.Errorf("the client trusts another CA: %v", err)
	}
	plain := bursarv1connect.NewClusterServiceClient(http.DefaultClient, "http"+strings.TrimPrefix(c.url, "https"))
	if _, err := plain.Status(t.Context(), &bursarv1.StatusRequest{}); err == nil {
		t.Error("plain HTTP is served")
	}
}

func TestRolesMayDoWhatTheTableSays(t *testing.T) {
	c := newAuthServer(t)
	c.addHosts(t)
	calls := map[string]func(v *visitor) error{
		"status": func(v *visitor) error { _, err := v.cluster.Status(t.Context(), &bursarv1.StatusRequest{}); return err },
		"hosts": func(v *visitor) error {
			_, err := v.hosts.List(t.Context(), &bursarv1.HostServiceListRequest{})
			return err
		},
		"audit": func(v *visitor) error { _, err := v.cluster.Audit(t.Context(), &bursarv1.AuditRequest{}); return err },
		"allocate": func(v *visitor) error {
			_, err := v.allocate(t, "h1", "alice")
			return err
		},
		"cordon": func(v *visitor) error {
			_, err := v.hosts.Cordon(t.Context(), &bursarv1.CordonRequest{HostId: "h2"})
			return err
		},
		"quota": func(v *visitor) error {
			_, err := v.quotas.Put(t.Context(), &bursarv1.PutRequest{Quota: &bursarv1.Quota{Selector: map[string]string{"user": "zoe"}, Limit: memory(gib)}})
			return err
		},
	}
	for call, want := range map[string]string{ // who may
		"status": "reader alice agent1 ops root c1", "hosts": "reader alice agent1 ops root c1", "audit": "reader alice ops root c1",
		"allocate": "alice root", "cordon": "ops root", "quota": "root",
	} {
		var may []string
		for _, member := range []string{"reader", "alice", "agent1", "ops", "root", "c1"} {
			switch err := calls[call](c.visit(t, member)); {
			case err == nil:
				may = append(may, member)
			case connect.CodeOf(err) != connect.CodePermissionDenied || !strings.Contains(err.Error(), ": want "):
				t.Errorf("%s by %s: %v; want PERMISSION_DENIED and what to do", call, member, err)
			}
		}
		if got := strings.Join(may, " "); got != want {
			t.Errorf("%s: %q may, want %q", call, got, want)
		}
	}
}

func TestSubmittersActAsTheirUsersAlone(t *testing.T) {
	c := newAuthServer(t)
	c.addHosts(t)
	alice, root, ops := c.visit(t, "alice"), c.visit(t, "root"), c.visit(t, "ops")
	_, err := alice.allocate(t, "h1", "bob")
	expect(t, "alice as bob", err, connect.CodePermissionDenied, "want a caller that may (users and priority in the coordinator's file of identities")
	bobs := root.mustAllocate(t, "h1", "bob")
	_, err = alice.allocations.Release(t.Context(), &bursarv1.ReleaseRequest{Id: bobs})
	expect(t, "alice releases bob's", err, connect.CodePermissionDenied, "alice may not release allocation "+bobs+" of user bob")
	spoof := c.visit(t, "alice", identity.Actor{Name: "root@h1", Anyone: true, Admin: true, Role: identity.Admin})
	_, err = spoof.allocate(t, "h1", "bob")
	expect(t, "alice with a header", err, connect.CodePermissionDenied, "alice may not speak for others (header Bursar-Actor): want no such header")
	_, err = alice.allocations.Allocate(t.Context(), &bursarv1.AllocateRequest{Labels: map[string]string{"user": "alice"}, Resource: memory(mib), Priority: 9})
	expect(t, "alice with priority", err, connect.CodePermissionDenied, "alice may not set priority 9")
	// An operator ends what is anybody's, and allocates for nobody.
	_, err = ops.allocate(t, "h1", "bob")
	expect(t, "an operator as bob", err, connect.CodePermissionDenied, "ops may not")
	if _, err := ops.allocations.Release(t.Context(), &bursarv1.ReleaseRequest{Id: bobs}); err != nil {
		t.Errorf("an operator releases bob's: %v", err)
	}
	if _, err := c.visit(t, "reader").allocations.Explain(t.Context(), &bursarv1.ExplainRequest{Request: request("", mib)}); err != nil {
		t.Errorf("a reader asks what would happen: %v", err)
	}
}

// A request without the label user is for the one user that its caller may act as; it is the same
// request when it is repeated. An empty user, and no user of a caller that may act as none or as
// several, is refused.
func TestAMissingUserIsTheCallersOnlyOne(t *testing.T) {
	c := newAuthServer(t)
	c.addHosts(t)
	ctx := t.Context()
	alice := c.visit(t, "alice")
	req := &bursarv1.AllocateRequest{RequestId: "r1", Resource: memory(mib), Host: &bursarv1.HostWishes{Id: "h1"}}
	first, err := alice.allocations.Allocate(ctx, req)
	if err != nil || first.GetAllocation().GetLabels()["user"] != "alice" {
		t.Fatalf("alice names no user: %v, %v; want user=alice", first, err)
	}
	again, err := alice.allocations.Allocate(ctx, req)
	if err != nil || again.GetAllocation().GetId() != first.GetAllocation().GetId() {
		t.Errorf("the same again: %v, %v; want allocation %s", again, err, first.GetAllocation().GetId())
	}
	explained, err := alice.allocations.Explain(ctx, &bursarv1.ExplainRequest{Request: &bursarv1.AllocateRequest{Resource: memory(mib)}})
	if err != nil || explained.GetVerdict() != bursarv1.ExplainResponse_VERDICT_FITS {
		t.Errorf("alice asks what would happen: %v, %v; want that it fits", explained, err)
	}
	_, err = alice.allocate(t, "h1", "")
	expect(t, "an empty user", err, connect.CodeInvalidArgument, `labels[user]: "": want the name of a user`)
	_, err = c.visit(t, "ops").allocations.Allocate(ctx, &bursarv1.AllocateRequest{Resource: memory(mib)})
	expect(t, "a caller without users", err, connect.CodePermissionDenied, "ops may not allocate for no user: want the label user (--label user=NAME), and a caller that may act as that user")
	through := c.visit(t, "agent1", identity.Actor{Name: "team@h1", Users: []string{"alice", "bob"}})
	_, err = through.allocations.Allocate(ctx, req)
	expect(t, "a caller with two users", err, connect.CodePermissionDenied, "team@h1 may not allocate for no user: want the label user (--label user=NAME) with one of alice, bob")
}

func TestAgentsSpeakForTheirHostAlone(t *testing.T) {
	c := newAuthServer(t)
	c.addHosts(t)
	ctx := t.Context()
	agent1 := c.visit(t, "agent1")
	expect(t, "registers h2", agent1.register(t, "h2"), connect.CodePermissionDenied, `agent1 may not register: hostId is "h2", the identity is for host "h1": want hostId: h1, or a token (certificate) of h2`)
	_, err := agent1.hosts.Sync(ctx, &bursarv1.SyncRequest{HostId: "h2", Incarnation: 1, Sequence: 9, BootId: "boot"})
	expect(t, "reports for h2", err, connect.CodePermissionDenied, `agent1 may not report: hostId is "h2", the identity is for host "h1"`)
	_, err = agent1.hosts.Deregister(ctx, &bursarv1.DeregisterRequest{HostId: "h2"})
	expect(t, "deregisters h2", err, connect.CodePermissionDenied, `agent1 may not deregister: hostId is "h2"`)
	ops := c.visit(t, "ops")
	if _, err := ops.hosts.Cordon(ctx, &bursarv1.CordonRequest{HostId: "h1", Reason: "disk"}); err != nil {
		t.Fatal(err)
	}
	_, err = agent1.hosts.Deregister(ctx, &bursarv1.DeregisterRequest{HostId: "h1", Force: true})
	expect(t, "takes itself out of a cordon", err, connect.CodeFailedPrecondition, "host h1 is under an operator's orders")
	if _, err := ops.hosts.Uncordon(ctx, &bursarv1.UncordonRequest{HostId: "h1"}); err != nil {
		t.Fatal(err)
	}
	_, err = agent1.allocate(t, "h1", "alice")
	expect(t, "in its own name", err, connect.CodePermissionDenied, "with the role agent: want one of the roles submitter, operator, admin")
	if err := c.certified(t, certs.Request{Name: "h2", Organization: []string{"bursar:agent"}}).register(t, "h1"); err == nil {
		t.Error("a certificate for h2 registers h1")
	}

	alice1 := identity.Actor{Name: "alice@h1", Users: []string{"alice"}, Role: identity.Admin, Admin: true, Host: "h2"}
	_, err = c.visit(t, "agent1", identity.Actor{Name: "alice@h2", Users: []string{"alice"}}).allocate(t, "h2", "alice")
	expect(t, "for a caller of h2", err, connect.CodePermissionDenied, `agent1 may not speak for "alice@h2": want a caller of its own host, whose name ends with @h1`)
	through := c.visit(t, "agent1", alice1)
	_, err = through.allocate(t, "h2", "alice")
	expect(t, "on h2", err, connect.CodePermissionDenied, "alice@h1 may not allocate on host h2")
	_, err = through.allocate(t, "", "alice")
	expect(t, "on any host", err, connect.CodePermissionDenied, "alice@h1 may not allocate on any host")
	_, err = through.allocate(t, "h1", "bob")
	expect(t, "as bob", err, connect.CodePermissionDenied, "alice@h1 may not")
	_, err = through.hosts.Cordon(ctx, &bursarv1.CordonRequest{HostId: "h1"})
	expect(t, "cordons as an admin", err, connect.CodePermissionDenied, "agent1 may not call /bursar.v1.HostService/Cordon in the name of alice@h1")
	all, err := through.cluster.Watch(ctx, &bursarv1.ClusterServiceWatchRequest{})
	if err == nil {
		all.Receive()
		err = all.Err()
	}
	expect(t, "watches the cluster", err, connect.CodePermissionDenied, "agent1 may not call /bursar.v1.ClusterService/Watch")
	own := through.mustAllocate(t, "h1", "alice")
	if _, err := through.allocations.Confirm(ctx, &bursarv1.ConfirmRequest{Id: own, Process: &bursarv1.Process{Pid: 7, StartTime: 1}}); err != nil {
		t.Error(err)
	}

	// Alice's engine on the other host is hers, and none of this agent's.
	foreign := c.visit(t, "alice").mustAllocate(t, "h2", "alice")
	ended := c.visit(t, "alice").mustAllocate(t, "h2", "alice")
	if _, err := c.visit(t, "alice").allocations.Release(ctx, &bursarv1.ReleaseRequest{Id: ended}); err != nil {
		t.Fatal(err)
	}
	for _, id := range []string{foreign, ended} {
		for name, call := range map[string]func() error{
			"confirm": func() error {
				_, err := through.allocations.Confirm(ctx, &bursarv1.ConfirmRequest{Id: id, Process: &bursarv1.Process{Pid: 7, StartTime: 1}})
				return err
			},
			"release": func() error { _, err := through.allocations.Release(ctx, &bursarv1.ReleaseRequest{Id: id}); return err },
			"cancel":  func() error { _, err := through.allocations.Cancel(ctx, &bursarv1.CancelRequest{Id: id}); return err },
			"renew":   func() error { _, err := through.allocations.Renew(ctx, &bursarv1.RenewRequest{Id: id}); return err },
			"resize": func() error {
				_, err := through.allocations.Resize(ctx, &bursarv1.ResizeRequest{Id: id, Entitled: memory(2 * mib)})
				return err
			},
			"stop": func() error { _, err := through.allocations.Stop(ctx, &bursarv1.StopRequest{Id: id}); return err },
			"get": func() error {
				_, err := through.allocations.Get(ctx, &bursarv1.AllocationServiceGetRequest{Id: id})
				return err
			},
			"explain": func() error {
				_, err := through.allocations.Explain(ctx, &bursarv1.ExplainRequest{Id: id})
				return err
			},
		} {
			expect(t, name+" of h2's", call(), connect.CodePermissionDenied, "alice@h1 may not see or change allocation "+id+": it is not on host h1")
		}
	}
	list, err := through.allocations.List(ctx, &bursarv1.AllocationServiceListRequest{Ended: true})
	if err != nil || len(list.GetAllocations()) != 1 || list.GetAllocations()[0].GetId() != own {
		t.Errorf("List through an agent: %v, %v", list, err)
	}
	_, err = through.allocations.List(ctx, &bursarv1.AllocationServiceListRequest{HostId: "h2"})
	expect(t, "List of h2", err, connect.CodePermissionDenied, "alice@h1 may not see allocations of host h2")
	stream, err := through.allocations.Watch(ctx, &bursarv1.AllocationServiceWatchRequest{HostId: "h2"})
	if err == nil {
		stream.Receive()
		err = stream.Err()
	}
	expect(t, "Watch of h2", err, connect.CodePermissionDenied, "alice@h1 may not see allocations of host h2")
	c.visit(t, "alice").mustAllocate(t, "h2", "alice")
	mine, err := through.allocations.Watch(ctx, &bursarv1.AllocationServiceWatchRequest{AfterRevision: 1})
	if err != nil {
		t.Fatal(err)
	}
	defer mine.Close()
	last := through.mustAllocate(t, "h1", "alice")
	for mine.Receive() {
		a := mine.Msg().GetAllocation()
		if a != nil && a.GetHostId() != "h1" {
			t.Errorf("Watch through an agent shows %s on %s", a.GetId(), a.GetHostId())
		}
		if a.GetId() == last {
			break
		}
	}
}

// Anybody may ask whether a coordinator is ready. Who shows no identity is told the kind of the
// fault alone.
func TestOnlyCallersWithAnIdentitySeeFaults(t *testing.T) {
	c := newAuthServer(t)
	fault := &election.StoreError{Cluster: "c", Theirs: "their-store", Ours: "our-store"}
	c.server.mismatch.set(fault)
	c.tokens["stranger"] = access.NewToken()
	for caller, sees := range map[string]bool{"": false, "stranger": false, "reader": true, "agent1": true, "root": true} {
		res, err := c.visit(t, caller).http.Get(c.url + "/readyz")
		if err != nil {
			t.Fatal(err)
		}
		body, err := io.ReadAll(res.Body)
		res.Body.Close()
		if err != nil || res.StatusCode != http.StatusServiceUnavailable {
			t.Errorf("%q: %d, %v", caller, res.StatusCode, err)
		}
		if strings.Contains(string(body), fault.Error()) != sees || strings.Contains(string(body), "their-store") != sees {
			t.Errorf("%q reads %q; want the fault itself: %t", caller, body, sees)
		}
		if !sees && !strings.HasPrefix(string(body), "this coordinator has another store than its cluster; ") {
			t.Errorf("%q reads %q", caller, body)
		}
	}
}

func TestOpenPagesAndClosedOnes(t *testing.T) {
	c := newAuthServer(t)
	get := func(v *visitor, path string) int {
		res, err := v.http.Get(c.url + path)
		if err != nil {
			t.Fatal(err)
		}
		defer res.Body.Close()
		_, _ = io.Copy(io.Discard, res.Body)
		return res.StatusCode
	}
	nobody, reader := c.visit(t, ""), c.visit(t, "reader")
	for path, want := range map[string]int{"/healthz": 200, "/readyz": 200, "/metrics": 200 /* from this machine */, "/nothing": 401} {
		if got := get(nobody, path); got != want {
			t.Errorf("%s without a token: %d, want %d", path, got, want)
		}
	}
	if got := get(reader, "/nothing"); got != http.StatusNotFound {
		t.Errorf("/nothing: %d", got)
	}
	post := func(v *visitor, path string) int {
		res, err := v.http.Post(c.url+path, "application/json", strings.NewReader(`{}`))
		if err != nil {
			t.Fatal(err)
		}
		defer res.Body.Close()
		return res.StatusCode
	}
	if got := post(nobody, "/grpc.health.v1.Health/Check"); got != http.StatusOK {
		t.Errorf("the health service without a token: %d", got)
	}
	const reflection = "/grpc.reflection.v1.ServerReflection/ServerReflectionInfo"
	if got := post(nobody, reflection); got != http.StatusUnauthorized {
		t.Errorf("reflection without a token: %d", got)
	}
	if got := post(reader, reflection); got == http.StatusUnauthorized || got == http.StatusForbidden {
		t.Errorf("reflection with one: %d", got)
	}
	// A scraper on another machine shows a token.
	remote := func(token string) int {
		w := &statusOnly{header: http.Header{}}
		r, err := http.NewRequestWithContext(t.Context(), http.MethodGet, "https://rm/metrics", nil)
		if err != nil {
			t.Fatal(err)
		}
		r.RemoteAddr = "10.1.2.3:4"
		r.Header.Set("Authorization", token)
		if token == "" {
			r.Header.Del("Authorization")
		}
		c.server.Handler().ServeHTTP(w, r)
		return w.code
	}
	if got := remote(""); got != http.StatusUnauthorized {
		t.Errorf("/metrics from elsewhere without a token: %d", got)
	}
	if got := remote("Bearer " + c.tokens["reader"]); got != 0 && got != http.StatusOK {
		t.Errorf("/metrics from elsewhere with one: %d", got)
	}
}

type statusOnly struct {
	header http.Header
	code   int
}

func (r *statusOnly) Header() http.Header         { return r.header }
func (r *statusOnly) Write(p []byte) (int, error) { return len(p), nil }
func (r *statusOnly) WriteHeader(code int)        { r.code = code }
