package client

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strings"
	"time"

	"connectrpc.com/connect"
	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/trace"

	"github.com/bursar/bursar/internal/discovery"
)

// router sends each attempt of a call to the chosen coordinator.
type router struct {
	choice    *choice
	liveness  *liveness
	transport roundTripper
}

var _ connect.HTTPClient = (*router)(nil)

func newRouter(finder discovery.Finder, transport roundTripper) *router {
	r := &router{choice: newChoice(finder), transport: transport}
	r.liveness = newLiveness(r.probe, func(url string) {
		r.choice.failed(time.Now(), url, true)
		transport.CloseIdleConnections() // idle ones to it would hang the next attempt
	})
	return r
}

// destination is the coordinator of an attempt. The outcome of the attempt is recorded for it.
type destination struct{ url string }

type destinationKey struct{}

// Do sends the attempt.
func (r *router) Do(req *http.Request) (*http.Response, error) {
	base, err := r.choice.choose(time.Now())
	if err != nil {
		closeBody(req)
		return nil, err
	}
	if p, ok := req.Context().Value(destinationKey{}).(*destination); ok {
		p.url = base
	}
	ctx, cancel := context.WithCancelCause(req.Context())
	routed, err := reroute(req.WithContext(ctx), base)
	if err != nil {
		closeBody(req)
		cancel(err)
		return nil, err
	}
	if span := trace.SpanFromContext(ctx); span.IsRecording() {
		span.SetAttributes(attribute.String("bursar.coordinator", routed.URL.Host))
	}
	a := r.liveness.begin(base, cancel) //nolint:contextcheck // a sign of life is asked for in nobody's name
	response, err := r.transport.RoundTrip(routed)
	if err != nil {
		err = whyEnded(ctx, err)
		if connected(err) {
			a.markAlive() // a refused connection is an answer, too
		}
		a.end()
		return nil, fmt.Errorf("%s: %w", base, err)
	}
	a.markAlive()
	response.Body = &watchedBody{ReadCloser: response.Body, ctx: ctx, attempt: a}
	return response, nil
}

// reroute changes the server of a request, and puts the path of base before the request's path.
func reroute(req *http.Request, base string) (*http.Request, error) {
	to, err := url.Parse(base)
	if err != nil {
		return nil, fmt.Errorf("coordinator %q: %w", base, err)
	}
	there := *req.URL
	there.Scheme, there.Host, there.Path = to.Scheme, to.Host, strings.TrimSuffix(to.Path, "/")+req.URL.Path
	req.URL, req.Host = &there, to.Host
	return req, nil
}

func closeBody(req *http.Request) {
	if req.Body != nil {
		_ = req.Body.Close() // it was not sent
	}
}

// whyEnded replaces the error of an abandoned attempt.
func whyEnded(ctx context.Context, err error) error {
	if errors.Is(context.Cause(ctx), errHangs) {
		return errHangs
	}
	return err
}

// connected reports whether the error came from the other end.
func connected(err error) bool {
	return !errors.Is(err, errHangs) && !errors.Is(err, context.Canceled) && !errors.Is(err, context.DeadlineExceeded)
}

// probe requests a sign of life.
func (r *router) probe(ctx context.Context, base string) error {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, base+"/healthz", http.NoBody)
	if err != nil {
		return fmt.Errorf("coordinator %q: %w", base, err)
	}
	response, err := r.transport.RoundTrip(req)
	if err != nil {
		return fmt.Errorf("coordinator %s: %w", base, err)
	}
	// so that the connection can be reused
	_, _ = io.Copy(io.Discard, io.LimitReader(response.Body, 1<<10))
	return response.Body.Close()
}

// watchedBody is the body of an answer; its Close ends the attempt.
type watchedBody struct {
	io.ReadCloser

	ctx     context.Context //nolint:containedctx // of the attempt
	attempt *attempt
}

// Read counts as a sign of life.
func (b *watchedBody) Read(p []byte) (int, error) {
	n, err := b.ReadCloser.Read(p)
	if err != nil && !errors.Is(err, io.EOF) {
		err = whyEnded(b.ctx, err)
	} else {
		b.attempt.markAlive()
	}
	return n, err
}

// Close ends the attempt.
func (b *watchedBody) Close() error {
	err := b.ReadCloser.Close()
	b.attempt.end()
	return err
}

// newDestination gives an attempt a place to record its coordinator. r may be nil.
func (r *router) newDestination(ctx context.Context) (context.Context, *destination) {
	if r == nil {
		return ctx, nil
	}
	p := &destination{}
	return context.WithValue(ctx, destinationKey{}, p), p
}

// attemptEnded decides by an attempt's error whether the next one goes to another coordinator: if
// nobody answered, the server is unavailable, or it does not answer like a coordinator.
func (r *router) attemptEnded(p *destination, err error) {
	if r == nil || err == nil {
		return
	}
	switch code := connect.CodeOf(err); {
	case code == connect.CodeUnavailable,
		!connect.IsWireError(err) && code != connect.CodeCanceled && code != connect.CodeDeadlineExceeded:
		r.choice.failed(time.Now(), p.url, false)
	}
}
