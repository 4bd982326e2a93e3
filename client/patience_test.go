package client

import (
	"context"
	"errors"
	"io"
	"net"
	"path/filepath"
	"slices"
	"sync/atomic"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"connectrpc.com/connect"
	"google.golang.org/protobuf/types/known/durationpb"

	"github.com/bursar/bursar/internal/admission"
	"github.com/bursar/bursar/internal/credential"
	"github.com/bursar/bursar/internal/discovery"
	bursarv1 "github.com/bursar/bursar/proto/bursar/v1"
)

// A restart and a change of leader take longer than the detection of a wrong address.
func TestPatienceIsShorterIfTheAddressLooksWrong(t *testing.T) {
	leaderless := wireError(connect.CodeUnavailable)
	broken := connect.NewError(connect.CodeUnavailable, io.ErrUnexpectedEOF)
	untrusted := connect.NewError(connect.CodeUnavailable, &credential.TrustError{Err: errors.New("unknown authority"), Advice: "want another ca"})
	for name, c := range map[string]struct {
		failures []error
		most     time.Duration
	}{
		"nobody listens":                           {[]error{errRefused}, 15 * time.Second},
		"no coordinator is known":                  {[]error{connect.NewError(connect.CodeUnavailable, errNoneKnown)}, 15 * time.Second},
		"the machine does not answer":              {[]error{noDial("tcp", syscall.EHOSTUNREACH)}, 15 * time.Second},
		"the name is not known":                    {[]error{noDial("tcp", &net.DNSError{Name: "rm-9", IsNotFound: true})}, 5 * time.Second},
		"names cannot be looked up":                {[]error{noDial("tcp", &net.DNSError{Name: "rm-9", IsTemporary: true})}, 15 * time.Second},
		"no socket":                                {[]error{noSocket(filepath.Join(t.TempDir(), "agent.sock"))}, 15 * time.Second},
		"no folder of a socket":                    {[]error{noSocket(filepath.Join(t.TempDir(), "none", "agent.sock"))}, 5 * time.Second},
		"another user's program":                   {[]error{connect.NewError(connect.CodeUnavailable, &discovery.ForeignServerError{})}, 5 * time.Second},
		"one that is not trusted":                  {[]error{untrusted}, 5 * time.Second},
		"nobody leads":                             {[]error{leaderless}, 15 * time.Second},
		"hangs":                                    {[]error{connect.NewError(connect.CodeUnavailable, errHangs)}, 15 * time.Second},
		"broke, then nobody listens":               {[]error{broken, errRefused}, 15 * time.Second},
		"one is gone, another says nobody leads":   {[]error{errRefused, leaderless, errRefused}, 15 * time.Second},
		"a connection that was closed for another": {[]error{connect.NewError(connect.CodeCanceled, syscall.ECONNRESET)}, 15 * time.Second},
	} {
		synctest.Test(t, func(t *testing.T) {
			s := defaults()
			s.retries.Patience, s.retries.Present = 5*time.Second, 15*time.Second
			began := time.Now()
			_, err := attempts(t.Context(), s, get(), func(_ context.Context, n int) error { return c.failures[min(n, len(c.failures))-1] })
			if took := time.Since(began); err == nil || took > c.most || took < c.most-4*time.Second {
				t.Errorf("%s: %v after %s: want to give up after %s", name, err, took, c.most)
			}
		})
	}
}

// A call to an address without a server ends soon. A server that was there may be restarting. A
// caller that waits for resources also waits for their server.
func TestAnAbsentServerIsNotWaitedFor(t *testing.T) {
	leaderless, broken := wireError(connect.CodeUnavailable), connect.NewError(connect.CodeUnavailable, io.ErrUnexpectedEOF)
	for name, c := range map[string]struct {
		failures []error
		before   bool // it has answered before
		wait     time.Duration
		deadline time.Duration
		most     time.Duration
	}{
		"nobody listens":                     {failures: []error{errRefused}, most: time.Second},
		"nobody listens, with a deadline":    {failures: []error{errRefused}, deadline: time.Minute, most: time.Second},
		"the machine does not answer":        {failures: []error{noDial("tcp4", syscall.EHOSTUNREACH)}, most: time.Second},
		"the name is not known":              {failures: []error{noDial("tcp", &net.DNSError{Name: "rm-9", IsNotFound: true})}, most: time.Second},
		"no socket":                          {failures: []error{noSocket(filepath.Join(t.TempDir(), "agent.sock"))}, most: time.Second},
		"no coordinator is known yet":        {failures: []error{connect.NewError(connect.CodeUnavailable, errNoneKnown)}, most: 3 * time.Second},
		"it has answered before":             {failures: []error{errRefused}, before: true, most: 15 * time.Second},
		"it broke":                           {failures: []error{broken, errRefused}, most: 15 * time.Second},
		"another one says that nobody leads": {failures: []error{errRefused, leaderless, errRefused}, most: 15 * time.Second},
		"it waits for resources":             {failures: []error{errRefused}, wait: 20 * time.Second, most: 20*time.Second + defaultTimeout},
	} {
		synctest.Test(t, func(t *testing.T) {
			s := defaults()
			s.reached = new(atomic.Bool)
			s.reached.Store(c.before)
			s.retries.Patience, s.retries.Absent, s.retries.Present = 5*time.Second, time.Second, 15*time.Second
			ctx, req := t.Context(), get()
			if c.deadline > 0 {
				var cancel context.CancelFunc
				ctx, cancel = context.WithTimeout(ctx, c.deadline)
				defer cancel()
			}
			if c.wait > 0 {
				req = waiting(c.wait)
			}
			began := time.Now()
			_, err := attempts(ctx, s, req, func(_ context.Context, n int) error { return c.failures[min(n, len(c.failures))-1] })
			if took := time.Since(began); err == nil || took > c.most || took < c.most-4*time.Second {
				t.Errorf("%s: %v after %s: want to give up after %s", name, err, took, c.most)
			}
		})
	}
}

// noDial is the error of an attempt whose connection was not made.
func noDial(network string, err error) error {
	return connect.NewError(connect.CodeUnavailable, &net.OpError{Op: "dial", Net: network, Err: err})
}

func noSocket(path string) error {
	return connect.NewError(connect.CodeUnavailable, &net.OpError{
		Op: "dial", Net: "unix", Addr: &net.UnixAddr{Name: path, Net: "unix"}, Err: syscall.ENOENT,
	})
}

// A waiting caller gets the reason once, unless the server has said when to try again.
func TestWhoWaitsForAnAnswerHearsWhyOnce(t *testing.T) {
	refused := connect.NewWireError(connect.CodeResourceExhausted, errors.New("too many requests"))
	refused.AddDetail(admission.Refusal(nil, time.Second).Details()[0])
	launch := connect.NewRequest(&bursarv1.LaunchRequest{})
	for name, c := range map[string]struct {
		req  connect.AnyRequest
		try  func(ctx context.Context) error
		want []error
	}{
		"nobody leads":  {get(), func(context.Context) error { return errRefused }, []error{errRefused}},
		"no answer yet": {get(), func(ctx context.Context) error { <-ctx.Done(); return ctx.Err() }, []error{nil}},
		"answered":      {get(), func(context.Context) error { return nil }, nil},
		"too busy":      {get(), func(context.Context) error { return refused }, nil},
		"waits":         {waiting(time.Minute), func(ctx context.Context) error { <-ctx.Done(); return ctx.Err() }, nil},
		"launches":      {launch, func(ctx context.Context) error { <-ctx.Done(); return ctx.Err() }, nil},
	} {
		synctest.Test(t, func(t *testing.T) {
			var heard []error
			began := time.Now()
			s := defaults()
			WithNotice(2*time.Second, func(last error) {
				if took := time.Since(began); took != 2*time.Second {
					t.Errorf("%s: after %s, want 2s", name, took)
				}
				heard = append(heard, last)
			}).apply(&s)
			_, _ = attempts(t.Context(), s, c.req, func(ctx context.Context, _ int) error { return c.try(ctx) })
			if !slices.Equal(heard, c.want) {
				t.Errorf("%s: heard %v, want %v", name, heard, c.want)
			}
		})
	}
}

// A wait counts from the first attempt: each later attempt asks for the rest of it, even at a
// server that knows nothing of the first one.
func TestALaterAttemptWaitsForWhatIsLeft(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const wait = time.Minute
		message := &bursarv1.AllocateRequest{RequestId: "r1", Wait: durationpb.New(wait)}
		req := connect.NewRequest(message)
		began := time.Now()
		made, err := attempts(t.Context(), defaults(), req, func(_ context.Context, n int) error {
			left := max(wait-time.Since(began), time.Millisecond)
			if got := req.Msg.GetWait().AsDuration(); got != left {
				t.Errorf("attempt %d, after %s, waits for %s: want %s", n, time.Since(began), got, left)
			}
			switch n {
			case 1:
				time.Sleep(20 * time.Second)
			case 2:
				time.Sleep(time.Minute) // the server was there for the end of the wait, and is gone
			case 3:
				return nil
			}
			return connect.NewError(connect.CodeUnavailable, io.ErrUnexpectedEOF)
		})
		if made != 3 || err != nil {
			t.Errorf("%d attempts, %v: want the third to be answered", made, err)
		}
		if message.GetWait().AsDuration() != wait {
			t.Errorf("the caller's own message was changed: %v", message)
		}
	})
}
