package consul

import (
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"time"

	"github.com/hashicorp/consul/api"

	"github.com/bursar/bursar/internal/credential"
	"github.com/bursar/bursar/internal/discovery"
)

// ErrNotConsul means that an answer lacks a header that every answer of Consul has.
var ErrNotConsul = errors.New("the answer has no index: something else than Consul gave it")

// ErrNoLeader means that the answering Consul server knows no leader of Consul: its answer may be
// stale.
var ErrNoLeader = errors.New("this server of Consul knows no leader of Consul: its answer may be old")

// Current returns ErrNotConsul or ErrNoLeader if the answer to a stale-mode query cannot be used.
func Current(meta *api.QueryMeta) error {
	switch {
	case meta.LastIndex == 0:
		return ErrNotConsul
	case !meta.KnownLeader || meta.LastContact > staleAfter:
		return ErrNoLeader
	}
	return nil
}

// errHidden means that an answer is empty, possibly because of an ACL.
var errHidden = errors.New("no coordinator is shown, and Consul leaves out what the caller may not read")

// hides returns errHidden if an answer has no entries and an ACL may be the reason. Consul does not
// tell a caller without a token whether it has left out entries.
func (c *Client) hides(entries []*api.ServiceEntry, meta *api.QueryMeta) error {
	unknown := c.transport.token.Token() == "" && meta.DefaultACLPolicy == "deny"
	if len(entries) == 0 && (meta.ResultsFilteredByACLs || unknown) {
		return errHidden
	}
	return nil
}

// staleAfter is how long ago a server may have last heard from its leader. It is longer than any
// pause between two heartbeats of Consul's servers.
const staleAfter = 2 * time.Second

// Error is a failed call to Consul.
type Error struct {
	// Where is the called address.
	Where string
	// Doing is the purpose of the call.
	Doing string
	// Hint is what an operator should change; empty if Consul is unavailable or in trouble, and
	// only waiting helps.
	Hint string
	Err  error
}

func (e *Error) Error() string {
	// The error may contain a page of another server, or the value of a key.
	text := fmt.Sprintf("Consul at %s: %s: %s", e.Where, e.Doing, discovery.Cut(e.Err.Error(), discovery.MaxShownError))
	if e.Hint != "" {
		text += ": " + e.Hint
	}
	return text
}

func (e *Error) Unwrap() error { return e.Err }

// Refused reports whether Consul, or the check of its certificate, rejected the call, so that
// waiting alone does not help.
func (e *Error) Refused() bool { return e.Hint != "" }

// Refused reports whether an error of this package, anywhere in the chain, does not go away by
// waiting.
func Refused(err error) bool {
	e, ok := errors.AsType[*Error](err)
	return ok && e.Refused()
}

// Explain wraps the error of a call with its purpose and a hint. It returns nil for nil.
func (c *Client) Explain(doing string, err error) error {
	if err == nil {
		return nil
	}
	return &Error{Where: c.where, Doing: doing, Hint: c.hint(err), Err: err}
}

func (c *Client) hint(err error) string {
	if status, ok := errors.AsType[api.StatusError](err); ok {
		return c.statusHint(status)
	}
	if errors.Is(err, errHidden) {
		return c.statusHint(api.StatusError{Code: http.StatusForbidden})
	}
	if trust, ok := errors.AsType[*credential.TrustError](credential.Describe(err)); ok {
		return trust.Advice + " (in the section consul, or by the CONSUL_ variables of the environment)"
	}
	_, syntax := errors.AsType[*json.SyntaxError](err)
	_, kind := errors.AsType[*json.UnmarshalTypeError](err)
	if syntax || kind || errors.Is(err, ErrNotConsul) {
		return "something else than Consul answers there: set consul.address to Consul's HTTP API, such as 127.0.0.1:8500"
	}
	return ""
}

func (c *Client) statusHint(status api.StatusError) string {
	switch {
	case status.Code == http.StatusForbidden && c.transport.token.Token() == "":
		return "set consul.token or consul.tokenFile (or CONSUL_HTTP_TOKEN_FILE) to a token that may do this"
	case status.Code == http.StatusForbidden, status.Code == http.StatusUnauthorized:
		return "the token may not do this: a coordinator needs service:write for " + c.config.Service +
			", session:write for its node, key:write below bursar/ and node:read; an agent needs service:read and node:read"
	case status.Code == http.StatusBadRequest && strings.Contains(status.Body, "HTTPS"):
		return "it speaks TLS: set consul.address to https://…"
	}
	return ""
}
