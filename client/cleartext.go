package client

import (
	"errors"
	"fmt"
	"net/http"
	"net/url"

	"connectrpc.com/connect"

	"github.com/bursar/bursar/internal/discovery"
)

// ErrTokenInClear fails a call with UNAUTHENTICATED before anything was sent. Its token would
// cross a network over plain http, and everybody on the way could read it.
var ErrTokenInClear = errors.New("the token would be sent in clear: want https:// and TLS at the coordinator (tls.cert and tls.key), or no token")

// InClear reports whether what is sent to a base URL crosses a network unencrypted.
func InClear(base string) bool {
	u, err := url.Parse(base)
	return err == nil && u.Scheme == "http" && !discovery.Loopback(u.Hostname())
}

// refuseCleartext refuses a request that would show a token to a network. The host of a socket's
// URL is localhost.
func refuseCleartext(req *http.Request) error {
	if req.Header.Get("Authorization") == "" || req.URL.Scheme != "http" || discovery.Loopback(req.URL.Hostname()) {
		return nil
	}
	return connect.NewError(connect.CodeUnauthenticated, fmt.Errorf("http://%s: %w", req.URL.Host, ErrTokenInClear))
}
