package election

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/hashicorp/consul/api"

	"github.com/bursar/bursar/internal/discovery/consul"
	"github.com/bursar/bursar/test/certs"
	consulserver "github.com/bursar/bursar/test/consul"
)

// secured is a Consul with access control and TLS.
func secured(t *testing.T) (s *consulserver.Server, ca string) {
	t.Helper()
	dir, authority := t.TempDir(), certs.New(t, "Consul CA")
	ca = authority.File(t, dir, "ca.pem")
	cert, key := authority.Issue(t, certs.Request{Name: "consul", Hosts: []string{"127.0.0.1"}}).Files(t, dir, "consul")
	s = consulserver.Start(t, consulserver.Options{Token: "5d0a9d0e-8c36-4b6f-8f0b-3f5c2a2f9b01", Cert: cert, Key: key, CA: ca})
	return s, ca
}

// tokenFor makes a token with these rules.
func tokenFor(t *testing.T, s *consulserver.Server, name, rules string) string {
	t.Helper()
	client := admin(t, s)
	policy, _, err := client.ACL().PolicyCreate(&api.ACLPolicy{Name: name, Rules: rules}, nil)
	if err != nil {
		t.Fatal(err)
	}
	token, _, err := client.ACL().TokenCreate(&api.ACLToken{Policies: []*api.ACLTokenPolicyLink{{ID: policy.ID}}}, nil)
	if err != nil {
		t.Fatal(err)
	}
	return token.SecretID
}

// rules are the permissions of a coordinator, as in the hint of an error.
const rules = `
service "secured" { policy = "write" }
session_prefix "" { policy = "write" }
key_prefix "bursar/" { policy = "write" }
node_prefix "" { policy = "read" }`

func TestConsulThatRefusesIsAnErrorThatSaysWhatToDo(t *testing.T) {
	t.Parallel()
	s, ca := secured(t)
	const unknown = "11111111-2222-3333-4444-555555555555"
	otherCA := certs.New(t, "Other CA").File(t, t.TempDir(), "other.pem")
	for _, test := range []struct {
		name   string
		change func(c *consul.Config)
		want   []string
	}{
		{"an unknown token", func(c *consul.Config) { c.Token = unknown }, []string{"403", "service:write for secured"}},
		{"no token", func(c *consul.Config) { c.Token = "" }, []string{"403", "consul.tokenFile"}},
		{"a token for something else", func(c *consul.Config) {
			c.Token = tokenFor(t, s, "reader", `service_prefix "" { policy = "read" }`)
		}, []string{"403", "service:write for secured"}},
		{"a token without keys", func(c *consul.Config) {
			c.Token = tokenFor(t, s, "keyless", strings.Replace(rules, `"bursar/" { policy = "write"`, `"bursar/" { policy = "deny"`, 1))
		}, []string{"403", "key:write"}},
		{"a token without sessions", func(c *consul.Config) {
			c.Token = tokenFor(t, s, "sessionless", strings.Replace(rules, `session_prefix "" { policy = "write"`, `session_prefix "" { policy = "read"`, 1))
		}, []string{"403", "session:write"}},
		{"another CA", func(c *consul.Config) { c.TLS.CA = otherCA }, []string{"unknown authority", "tls.ca"}},
		{"another name", func(c *consul.Config) { c.TLS.ServerName = "bursar" }, []string{"bursar", "tls.serverName"}},
		{"no TLS", func(c *consul.Config) { c.Address = strings.Replace(c.Address, "https", "http", 1) }, []string{"https://"}},
		{"TLS where there is none", func(c *consul.Config) {
			c.Address = strings.Replace(shared.Address, "http", "https", 1)
		}, []string{"http://"}},
	} {
		t.Run(test.name, func(t *testing.T) {
			c := newCandidate(t, s.Address, "a", func(config *consul.Config, _ *Options) {
				config.Service, config.Token, config.TLS.CA = "secured", s.Token, ca
				test.change(config)
			})
			ctx, cancel := context.WithTimeout(t.Context(), patience)
			defer cancel()
			_, err := c.Campaign(ctx)
			var refused *consul.Error
			if !errors.As(err, &refused) || !refused.Refused() {
				t.Fatalf("error %v: want one of a refusal", err)
			}
			for _, part := range test.want {
				if !strings.Contains(err.Error(), part) {
					t.Errorf("error %q: want it to say %q", err, part)
				}
			}
			if text := err.Error() + c.log.String(); strings.Contains(text, unknown) || strings.Contains(text, s.Token) {
				t.Error("a token was told")
			}
		})
	}
}

func TestTokenInAFileIsEnoughAndMayChange(t *testing.T) {
	t.Parallel()
	s, ca := secured(t)
	file := filepath.Join(t.TempDir(), "token")
	write := func(token string) {
		t.Helper()
		if err := os.WriteFile(file, []byte(token+"\n"), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	first, second := tokenFor(t, s, "first", rules), tokenFor(t, s, "second", rules)
	write(first)
	c := newCandidate(t, s.Address, "a", func(config *consul.Config, o *Options) {
		config.Service, config.TokenFile, config.TLS.CA = "secured", file, ca
		o.TTL = 10 * time.Second // there are passes to wait for
	})
	if err := c.ClaimStore(t.Context(), storeOne, false); err != nil {
		t.Fatal(err)
	}
	term := c.lead(t, 1)
	write(second)
	passesAfter(t, c, 1500*time.Millisecond) // files are looked at every second
	deleted, _, err := admin(t, s).ACL().TokenReadSelf(&api.QueryOptions{Token: first})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := admin(t, s).ACL().TokenDelete(deleted.AccessorID, nil); err != nil {
		t.Fatal(err)
	}
	passesAfter(t, c, 0)
	if isOver(term) {
		t.Error("the new token has ended the term")
	}
	if err := term.Resign(t.Context()); err != nil {
		t.Fatal(err)
	}
	c.lead(t, 2)
}

// passesAfter waits until the coordinator has passed its health check when at least d has gone by.
func passesAfter(t *testing.T, c *coordinator, d time.Duration) {
	t.Helper()
	then := time.Now().Add(d)
	eventually(t, func() bool { return c.registration.LastPass().After(then) })
}
