package auth

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/netip"
	"strings"
	"time"

	"connectrpc.com/connect"

	"github.com/bursar/bursar/internal/admission"
	"github.com/bursar/bursar/proto/bursar/v1/bursarv1connect"
)

// Timeouts are a coordinator's timeouts for the other end of a connection.
type Timeouts struct {
	// Header bounds the arrival of a request's headers.
	Header time.Duration
	// Body bounds the arrival of its body; a body of 64 MiB in 30 s takes 17 Mbit/s.
	Body time.Duration
	// Write bounds one write of an answer.
	Write time.Duration
	// Idle bounds the time until the next request.
	Idle time.Duration
	// Recheck is the time between two checks of a stream's credentials. A revoked credential stays
	// valid for a stream for that long.
	Recheck time.Duration
}

// requestLimits bound a request before its authentication: the size of its body, the time until the
// body has come, and the time for each write of the answer. They also refuse requests from pages of
// other sites in a browser on this machine. Over loopback no caller shows credentials, so such a
// page would have the rights of the browser's user.
type requestLimits struct {
	next    http.Handler
	time    *Timeouts
	largest func(path string) int64 // body, in bytes
	refuse  *connect.ErrorWriter
	audit   *AuditLog
	code    func(error) error
	cross   http.CrossOriginProtection
}

func (l *requestLimits) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	answer := admission.NewWriter(w, l.time.Write)
	w = answer
	limit := l.largest(r.URL.Path)
	if admission.IsFramed(r) {
		limit += framing
	}
	if err := l.checkOrigin(r); err != nil {
		denied := connect.NewError(connect.CodePermissionDenied, err)
		l.audit.recordRefusal(r.URL.Path, &Caller{Peer: r.RemoteAddr}, nil, denied)
		_ = l.refuse.Write(w, r, denied) // it fails if the caller has gone
		return
	}
	if r.ContentLength > limit {
		admission.CloseAfter(w.Header(), r) // do not wait for the body
		// it fails if the caller has gone
		_ = l.refuse.Write(w, r, l.code(tooLarge(fmt.Sprint(r.ContentLength), limit)))
		return
	}
	if isUnending(r.URL.Path) {
		r.Body = admission.WithoutTrailers(r)
		r = r.WithContext(context.WithValue(r.Context(), endBodyKey{}, func() {
			_ = answer.Control.SetReadDeadline(time.Unix(1, 0)) // some connections have no deadlines
		}))
	} else if r.Body != nil && r.Body != http.NoBody {
		// some connections have no deadlines
		_ = answer.Control.SetReadDeadline(time.Now().Add(l.time.Body))
		r.Body = &boundedBody{ReadCloser: admission.WithoutTrailers(r), control: answer.Control, code: l.code, left: limit, limit: limit}
	}
	l.next.ServeHTTP(w, r)
}

// isUnending reports whether the request of a procedure may have any number of messages, over any
// time. Each message has the bounds of a request, and the connection is watched.
func isUnending(path string) bool { return path == bursarv1connect.HostServiceSendOutputProcedure }

type endBodyKey struct{}

// EndBody stops the reading of such a request: a waiting Receive fails. Any goroutine may call it
// until the call has ended.
func EndBody(ctx context.Context) {
	if end, ok := ctx.Value(endBodyKey{}).(func()); ok {
		end()
	}
}

// checkOrigin refuses a browser's request for a page of another site. A site can make its name
// resolve to this machine's address. Then its page differs from one of this server only by the
// name, so the pages of this server must be called by address.
func (l *requestLimits) checkOrigin(r *http.Request) error {
	if r.Header.Get("Origin") == "" && r.Header.Get("Sec-Fetch-Site") == "" {
		return nil // no browser
	}
	name := r.Host
	if host, _, err := net.SplitHostPort(name); err == nil {
		name = host
	}
	if _, err := netip.ParseAddr(strings.Trim(name, "[]")); err != nil && name != "localhost" {
		return fmt.Errorf("host: %q: want the address of this server, in a browser", r.Host)
	}
	return l.cross.Check(r) //nolint:wrapcheck // it is complete
}

func tooLarge(size string, limit int64) error {
	return invalid("body", size+" bytes", fmt.Sprintf("at most %d bytes", limit))
}

// boundedBody is a request's body that fails with a typed error if it is too large. At its end it
// removes the read deadline of the connection: the answer may take as long as the request is
// willing to wait.
type boundedBody struct {
	io.ReadCloser

	control     *http.ResponseController
	code        func(error) error
	left, limit int64
}

func (b *boundedBody) Read(p []byte) (int, error) {
	if b.left < 0 {
		return 0, b.code(tooLarge("more than "+fmt.Sprint(b.limit), b.limit))
	}
	if int64(len(p)) > b.left+1 {
		p = p[:b.left+1]
	}
	n, err := b.ReadCloser.Read(p)
	b.left -= int64(n)
	if b.left < 0 {
		return n, b.code(tooLarge("more than "+fmt.Sprint(b.limit), b.limit))
	}
	if errors.Is(err, io.EOF) {
		_ = b.control.SetReadDeadline(time.Time{}) // some connections have no deadlines
	}
	return n, err //nolint:wrapcheck // io.EOF must stay as it is
}
