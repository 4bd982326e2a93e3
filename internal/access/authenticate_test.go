package access_test

import (
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"errors"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"google.golang.org/protobuf/reflect/protoreflect"

	"github.com/bursar/bursar/internal/access"
	"github.com/bursar/bursar/internal/identity"
	bursarv1 "github.com/bursar/bursar/proto/bursar/v1"
)

// shown is a client certificate that is always good.
type shown struct{ leaf *x509.Certificate }

func (s shown) Verify(*tls.ConnectionState) (*x509.Certificate, error) { return s.leaf, nil }

func subject(name string, organization ...string) shown {
	return shown{&x509.Certificate{Subject: pkix.Name{CommonName: name, Organization: organization}}}
}

func TestSubjectsOfCertificates(t *testing.T) {
	for name, c := range map[string]struct {
		shown shown
		want  identity.Actor
		wrong string
	}{
		"reader":       {shown: subject("web", "bursar:reader", "Example Inc"), want: identity.Actor{Name: "web", Role: identity.Reader}},
		"submitter":    {shown: subject("alice", "bursar:submitter"), want: identity.Actor{Name: "alice", Role: identity.Submitter, Users: []string{"alice"}}},
		"agent":        {shown: subject("vm-1.example", "bursar:agent"), want: identity.Actor{Name: "agent:vm-1.example", Role: identity.Agent, Host: "vm-1.example"}},
		"operator":     {shown: subject("ops", "bursar:operator"), want: identity.Actor{Name: "ops", Role: identity.Operator, Priority: true}},
		"admin":        {shown: subject("root", "bursar:admin"), want: identity.Actor{Name: "root", Role: identity.Admin, Priority: true, Anyone: true, Admin: true}},
		"coordinator":  {shown: subject("c1", "bursar:coordinator"), want: identity.Actor{Name: "c1", Role: identity.Coordinator}},
		"no role":      {shown: subject("alice", "Example Inc"), wrong: `want one with the role in its subject, such as O = "bursar:reader"`},
		"two roles":    {shown: subject("alice", "bursar:reader", "bursar:admin"), wrong: "want one with the role in its subject"},
		"unknown role": {shown: subject("alice", "bursar:root"), wrong: `role: "root": want reader, submitter`},
		"with an @":    {shown: subject("alice@vm-1", "bursar:submitter"), wrong: "want a name as CN"},
		"no name":      {shown: subject("", "bursar:admin"), wrong: "want a name as CN"},
		"no host":      {shown: subject("", "bursar:agent"), wrong: "want the id of the agent's host as CN"},
		"nothing":      {wrong: "the call carries no credentials: want a client certificate"},
	} {
		t.Run(name, func(t *testing.T) {
			a := access.Authenticator{Certificates: c.shown}
			got, err := a.Authenticate(http.Header{}, nil)
			if c.wrong != "" {
				var unknown *access.UnknownError
				if !errors.As(err, &unknown) || !strings.Contains(err.Error(), c.wrong) {
					t.Fatalf("%+v, %v; want %q", got, err, c.wrong)
				}
				return
			}
			if diff := cmp.Diff(c.want, got); err != nil || diff != "" {
				t.Error(err, diff)
			}
		})
	}
}

func TestTokens(t *testing.T) {
	all, err := access.Parse("f", []byte("identities:\n- {name: a, role: reader, tokenHash: ['"+access.Hash("old")+"', '"+access.Hash("new")+
		"']}\n- {name: b, role: admin, notAfter: 2027-01-31, tokenHash: "+access.Hash("passing")+"}\n"))
	if err != nil {
		t.Fatal(err)
	}
	now := time.Date(2027, 1, 31, 23, 59, 59, 0, time.UTC)
	a := access.Authenticator{Identities: func() *access.Identities { return all }, Now: func() time.Time { return now }, Certificates: subject("web", "bursar:operator")}
	who := func(values ...string) (string, error) {
		actor, err := a.Authenticate(http.Header{"Authorization": values}, nil)
		return actor.Name, err
	}
	for token, want := range map[string]string{"old": "a", "new": "a", "passing": "b"} {
		if got, err := who("Bearer " + token); err != nil || got != want {
			t.Errorf("%s: %q, %v; want %q", token, got, err, want)
		}
	}
	now = now.Add(time.Second)
	for _, c := range []struct {
		values []string
		want   string
	}{
		{[]string{"Bearer passing"}, "the identity b ended at 2027-02-01T00:00:00Z: want a later notAfter"},
		{[]string{"Bearer " + access.Hash("old")}, "the token is not known"},
		{[]string{"Bearer other"}, "the token is not known: never made, or revoked: want one of an identity in the coordinator's file; bursar token create makes one"},
		{[]string{"Bearer "}, "the token is not known"},
		{[]string{"Basic b2xkOm9sZA=="}, "header Authorization: want one, with Bearer and a token"},
		{[]string{"Bearer old", "Bearer new"}, "header Authorization: want one"},
		{nil, ""}, // the certificate, then
	} {
		got, err := who(c.values...)
		if c.want == "" {
			if err != nil || got != "web" {
				t.Errorf("%q: %q, %v", c.values, got, err)
			}
			continue
		}
		if err == nil || !strings.Contains(err.Error(), c.want) || strings.Contains(err.Error(), "passing") {
			t.Errorf("%q: %v; want %q", c.values, err, c.want)
		}
	}
}

func TestWhoSpeaksForWhom(t *testing.T) {
	agent := identity.Actor{Name: "agent:vm-1", Role: identity.Agent, Host: "vm-1"}
	for name, c := range map[string]struct {
		maker, named, want identity.Actor
		wrong              string
	}{
		"an agent for a caller": {
			maker: agent, named: identity.Actor{Name: "alice@vm-1", Users: []string{"alice"}},
			want: identity.Actor{Name: "alice@vm-1", Users: []string{"alice"}, Role: identity.Submitter, Host: "vm-1"},
		},
		"an agent for root": {
			maker: agent, named: identity.Actor{Name: "root@vm-1", Anyone: true, Priority: true, Admin: true, Role: identity.Operator, Host: "vm-2"},
			want: identity.Actor{Name: "root@vm-1", Anyone: true, Priority: true, Role: identity.Submitter, Host: "vm-1"},
		},
		"an agent for another host":     {maker: agent, named: identity.Actor{Name: "alice@vm-2"}, wrong: `agent:vm-1 may not speak for "alice@vm-2": want a caller of its own host, whose name ends with @vm-1`},
		"an agent for another's ending": {maker: agent, named: identity.Actor{Name: "alice@not-vm-1"}, wrong: "may not speak for"},
		"an agent for an identity":      {maker: agent, named: identity.Actor{Name: "ops"}, wrong: "may not speak for"},
		"a submitter":                   {maker: identity.Actor{Name: "alice", Role: identity.Submitter}, named: identity.Actor{Name: "bob"}, wrong: "want no such header: only agents and coordinators send it"},
		"an admin":                      {maker: identity.Actor{Name: "root", Role: identity.Admin}, named: identity.Actor{Name: "bob"}, wrong: "want no such header"},
		"a coordinator": {
			maker: identity.Actor{Name: "c1", Role: identity.Coordinator}, named: identity.Actor{Name: "ops", Role: identity.Operator, Priority: true},
			want: identity.Actor{Name: "ops", Role: identity.Operator, Priority: true},
		},
	} {
		t.Run(name, func(t *testing.T) {
			got, err := access.ActFor(c.maker, c.named.Encode())
			if c.wrong != "" {
				var denied *access.DeniedError
				if !errors.As(err, &denied) || !strings.Contains(err.Error(), c.wrong) {
					t.Fatalf("%+v, %v; want %q", got, err, c.wrong)
				}
				return
			}
			if diff := cmp.Diff(c.want, got); err != nil || diff != "" {
				t.Error(err, diff)
			}
		})
	}
	if got, err := access.ActFor(agent, ""); err != nil || got.Name != agent.Name {
		t.Errorf("for itself: %+v, %v", got, err)
	}
	if _, err := access.ActFor(agent, "nonsense"); err == nil {
		t.Error("a header that is no actor: want an error")
	}
}

// TestTableOfPermissions lists the permissions of each role in full, for readers.
func TestTableOfPermissions(t *testing.T) {
	want := map[string]string{
		"AllocationService": `
Allocate -s-oa-
Amend -s-oa-
Await --g-a-
Cancel -s-oa-
Confirm -s-oa-
Explain rsgoac
Get rsgoac
Leave --g-a-
List rsgoac
Release -s-oa-
Renew -s-oa-
Resize -s-oa-
Stop -s-oa-
Watch rsgoac`,
		"HostService": `
Accept ---oa-
Answer --g-a-
Attach --g-a-
Cordon ---oa-
Deregister --goa-
Drain ---oa-
Get rsgoac
List rsgoac
Register --g-a-
SendOutput --g-a-
Sync --g-a-
Uncordon ---oa-`,
		"EngineService": `
Launch ----a-
Logs -s-oa-
OrderLogs -s-oa-
Signal -s-oa-
Start -s-oa-
Wait rsgoac`,
		"QuotaService": `
Apply ----a-
Delete ----a-
Get rsgoac
List rsgoac
Put ----a-`,
		"QueueService": `
CheckProvider ----a-
DeleteProvider ----a-
Get rsgoac
List rsgoac
ListProviders rsgoac
PutProvider ----a-`,
		"ClusterService": `
Audit rs-oac
Status rsgoac
Watch rs-oac`,
	}
	for service, methods := range procedures() {
		var got strings.Builder
		for _, method := range methods {
			got.WriteString("\n" + method + " ")
			rule := access.RuleOf("/bursar.v1." + service + "/" + method)
			for i, role := range identity.Roles() {
				if rule.Allows(role) {
					got.WriteByte("rsgoac"[i])
				} else {
					got.WriteByte('-')
				}
			}
			if rule.Open || rule.OpenHere || len(rule.Roles) == 0 {
				t.Errorf("%s.%s is open, or nobody's", service, method)
			}
			if len(rule.Roles) < 5 && len(rule.Recorded) == 0 && service != "AllocationService" && !slices.Contains([]string{"Register", "Sync", "Attach", "Answer", "SendOutput", "Logs", "OrderLogs"}, method) {
				t.Errorf("%s.%s is an administrative call and goes unrecorded", service, method)
			}
			for _, role := range rule.AsAnyone {
				if !rule.Allows(role) {
					t.Errorf("%s.%s: %s may do so as anyone, and not at all", service, method, role)
				}
			}
		}
		if diff := cmp.Diff(want[service], got.String()); diff != "" {
			t.Errorf("%s: %s", service, diff)
		}
	}
	for path, want := range map[string]bool{"/healthz": true, "/readyz": true, "/grpc.health.v1.Health/Check": true, "/metrics": false, "/grpc.reflection.v1.ServerReflection/ServerReflectionInfo": false, "/": false} {
		if access.RuleOf(path).Open != want {
			t.Errorf("%s: open is %v", path, !want)
		}
	}
}

// procedures lists the contract's, by service.
func procedures() map[string][]string {
	all := map[string][]string{}
	for _, file := range []protoreflect.FileDescriptor{
		bursarv1.File_bursar_v1_allocation_proto, bursarv1.File_bursar_v1_host_proto, bursarv1.File_bursar_v1_quota_proto,
		bursarv1.File_bursar_v1_queue_proto, bursarv1.File_bursar_v1_cluster_proto, bursarv1.File_bursar_v1_engine_proto,
	} {
		service := file.Services().Get(0)
		name := string(service.Name())
		for i := range service.Methods().Len() {
			all[name] = append(all[name], string(service.Methods().Get(i).Name()))
		}
		slices.Sort(all[name])
	}
	return all
}

func TestWhatIsNotInTheTableIsAnAdmins(t *testing.T) {
	for _, path := range []string{"/bursar.v1.HostService/Explode", "/bursar.v1.HostService/Drain/", "/bursar.v2.HostService/Drain"} {
		rule := access.RuleOf(path)
		for _, role := range identity.Roles() {
			if rule.Allows(role) != (role == identity.Admin) {
				t.Errorf("%s by %s: %v", path, role, rule.Allows(role))
			}
		}
	}
}

func TestPermitGivesForOneCall(t *testing.T) {
	operator := identity.Actor{Name: "ops", Role: identity.Operator}
	for path, anyone := range map[string]bool{
		"/bursar.v1.AllocationService/Stop": true, "/bursar.v1.AllocationService/Release": true, "/bursar.v1.AllocationService/Cancel": true,
		"/bursar.v1.AllocationService/Allocate": false, "/bursar.v1.AllocationService/Confirm": false,
	} {
		got, err := access.RuleOf(path).Permit(operator, operator, path)
		if err != nil || got.OnAnyones != anyone || got.Anyone {
			t.Errorf("%s: %+v, %v", path, got, err)
		}
	}
	agent := identity.Actor{Name: "agent:vm-1", Role: identity.Agent, Host: "vm-1"}
	caller := identity.Actor{Name: "root@vm-1", Role: identity.Submitter, Host: "vm-1", Anyone: true}
	for path, want := range map[string]string{
		"/bursar.v1.AllocationService/Allocate": "",
		"/bursar.v1.HostService/List":           "agent:vm-1 may not call /bursar.v1.HostService/List in the name of root@vm-1: want a coordinator asked by the caller itself",
		"/bursar.v1.HostService/Drain":          "in the name of root@vm-1",
	} {
		_, err := access.RuleOf(path).Permit(agent, caller, path)
		if (err == nil) != (want == "") || err != nil && !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v; want %q", path, err, want)
		}
	}
	reader := identity.Actor{Name: "web", Role: identity.Reader}
	_, err := access.RuleOf("/bursar.v1.QuotaService/Put").Permit(reader, reader, "/bursar.v1.QuotaService/Put")
	if want := "web may not call /bursar.v1.QuotaService/Put with the role reader: want one of the roles admin"; err == nil || err.Error() != want {
		t.Errorf("%v; want %s", err, want)
	}
}
