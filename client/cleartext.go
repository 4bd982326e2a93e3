package client

import (
	"errors"
	"fmt"
	"net/http"
	"net/url"

	"connectrpc.com/connect"

	"github.com/bursar/bursar/internal/discovery"
)

// ErrTokenInClear fails a call with UNAUTHENTICATED before anything was sent: its token would cross
// a network in plain http, readable by everybody on the path.
var ErrTokenInClear = errors.New("the token would be sent in clear: want https:// and TLS at the coordinator (tls.cert and tls.key), or no token")

// InClear reports whether calls to a base URL cross a network unencrypted.
func InClear(base string) bool {
	u, err := url.Parse(base)
	return err == nil && u.Scheme == "http" && !discovery.Loopback(u.Hostname())
}

// refuseCleartext refuses a request that would send a token over a network unencrypted. The host of
// a socket's URL is localhost.
func refuseCleartext(req *http.Request) error {
	if req.Header.Get("Authorization") == "" || req.URL.Scheme != "http" || discovery.Loopback(req.URL.Hostname()) {
		return nil
	}
	return connect.NewError(connect.CodeUnauthenticated, fmt.Errorf("http://%s: %w", req.URL.Host, ErrTokenInClear))
}
