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

// Timeouts are how long a coordinator waits for the other end of a connection.
type Timeouts struct {
	// Header is for a request's headers to come.
	Header time.Duration
	// Body is for its body; one of 64 MiB in 30 s takes 17 Mbit/s.
	Body time.Duration
	// Write is for a piece of an answer to be taken.
	Write time.Duration
	// Idle is for the next request.
	Idle time.Duration
	// Recheck is how long a stream goes on before its caller's credentials are looked at again: so
	// long is a revoked one still good.
	Recheck time.Duration
}

// requestLimits bound what a request may cost before it was checked: the size of its body, how
// long the body may take to come, and how long a piece of the answer may take to be read. They
// also keep out pages of other sites that run in a browser on this machine. Over loopback nobody
// shows credentials, so such a page would have the rights of the browser's user.
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
		_ = l.refuse.Write(w, r, denied) // nobody reads it any more
		return
	}
	if r.ContentLength > limit {
		admission.CloseAfter(w.Header(), r) // the body is not waited for
		// nobody reads it any more
		_ = l.refuse.Write(w, r, l.code(tooLarge(fmt.Sprint(r.ContentLength), limit)))
		return
	}
	if isUnending(r.URL.Path) {
		r.Body = admission.WithoutTrailers(r)
		r = r.WithContext(context.WithValue(r.Context(), endBodyKey{}, func() {
			_ = answer.Control.SetReadDeadline(time.Unix(1, 0)) // in-process connections may not know deadlines
		}))
	} else if r.Body != nil && r.Body != http.NoBody {
		// in-process connections may not know deadlines
		_ = answer.Control.SetReadDeadline(time.Now().Add(l.time.Body))
		r.Body = &boundedBody{ReadCloser: admission.WithoutTrailers(r), control: answer.Control, code: l.code, left: limit, limit: limit}
	}
	l.next.ServeHTTP(w, r)
}

// isUnending reports whether the request of a procedure has any number of messages, over any time.
// Each of them is bounded as another request is, and the connection is watched.
func isUnending(path string) bool { return path == bursarv1connect.HostServiceSendOutputProcedure }

type endBodyKey struct{}

// EndBody ends the reading of a request that has any number of messages: a Receive that waits
// fails. Any goroutine may call it until the call has ended.
func EndBody(ctx context.Context) {
	if end, ok := ctx.Value(endBodyKey{}).(func()); ok {
		end()
	}
}

// checkOrigin refuses what a browser sends for a page of another site. A site can make its name
// resolve to this machine's address. Then its page looks like one of ours but for the name, so our
// pages are called by address.
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
	return l.cross.Check(r) //nolint:wrapcheck // it says all
}

func tooLarge(size string, limit int64) error {
	return invalid("body", size+" bytes", fmt.Sprintf("at most %d bytes", limit))
}

// boundedBody is a request's body that ends with a typed error if it is too large. Once it was
// read the connection has no deadline any more: the answer may take as long as the request is
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
		_ = b.control.SetReadDeadline(time.Time{}) // in-process connections may not know deadlines
	}
	return n, err //nolint:wrapcheck // io.EOF must stay as it is
}
