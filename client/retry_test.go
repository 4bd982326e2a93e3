package client

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"os"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"connectrpc.com/connect"
	"google.golang.org/protobuf/types/known/durationpb"

	"github.com/bursar/bursar/internal/admission"
	"github.com/bursar/bursar/internal/identity"
	bursarv1 "github.com/bursar/bursar/proto/bursar/v1"
	"github.com/bursar/bursar/proto/bursar/v1/bursarv1connect"
)

// errRefused is the error of an attempt at an address without a server.
var errRefused = connect.NewError(connect.CodeUnavailable, &net.OpError{Op: "dial", Net: "unix", Err: syscall.ECONNREFUSED})

// attempts calls through the interceptor; each attempt gets its number from 1 on and the context.
func attempts(
	ctx context.Context, s settings, req connect.AnyRequest, try func(ctx context.Context, n int) error,
) (made int, err error) {
	call := (&callInterceptor{settings: s}).WrapUnary(func(ctx context.Context, _ connect.AnyRequest) (connect.AnyResponse, error) {
		made++
		return nil, try(ctx, made)
	})
	_, err = call(ctx, req)
	return made, err
}

func defaults() settings {
	return settings{retries: RetryPolicy{}.withDefaults(), timeout: defaultTimeout}
}

func get() connect.AnyRequest { return connect.NewRequest(&bursarv1.AllocationServiceGetRequest{}) }

func TestCallIsRepeatedUntilItIsAnswered(t *testing.T) {
	for name, failure := range map[string]error{
		"nobody listens":      errRefused,
		"broke while reading": connect.NewError(connect.CodeUnknown, fmt.Errorf("read message: %w", io.ErrUnexpectedEOF)),
		"broke while waiting": connect.NewError(connect.CodeCanceled, fmt.Errorf("read unix: %w", syscall.ECONNRESET)),
		"broke while sending": connect.NewError(connect.CodeCanceled, fmt.Errorf("write unix: %w", syscall.EPIPE)),
		"the server's queue":  wireError(connect.CodeResourceExhausted),
		// the library takes both for the end of the caller's time
		"a host that is cut off":         connect.NewError(connect.CodeDeadlineExceeded, &url.Error{Op: "Post", Err: dialTimeout(t)}),
		"a host that was cut off":        connect.NewError(connect.CodeDeadlineExceeded, fmt.Errorf("read tcp: %w", syscall.ETIMEDOUT)),
		"headers that did not come soon": connect.NewError(connect.CodeDeadlineExceeded, fmt.Errorf("read: %w", os.ErrDeadlineExceeded)),
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				made, err := attempts(t.Context(), defaults(), get(), func(_ context.Context, n int) error {
					if n < 4 {
						return failure
					}
					return nil
				})
				if err != nil || made != 4 {
					t.Errorf("%d attempts, %v; want the fourth to be answered", made, err)
				}
			})
		})
	}
}

// dialTimeout is the error of a dialer that got no answer in its own time.
func dialTimeout(t *testing.T) error {
	t.Helper()
	c, err := net.DialTimeout("tcp", "127.0.0.1:1", time.Nanosecond)
	if err == nil {
		_ = c.Close()
		t.Fatal("connected within a nanosecond")
	}
	return err
}

// wireError makes an error as one that a server sent.
func wireError(code connect.Code) error {
	return connect.NewWireError(code, errors.New("queue is full"))
}

func TestServerSaysWhenToTryAgain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var at []time.Time
		refused := connect.NewWireError(connect.CodeResourceExhausted, errors.New("too many requests"))
		refused.AddDetail(admission.Refusal(nil, 3*time.Second).Details()[0])
		_, err := attempts(t.Context(), defaults(), get(), func(context.Context, int) error {
			if at = append(at, time.Now()); len(at) < 3 {
				return refused
			}
			return nil
		})
		if err != nil || len(at) != 3 || at[1].Sub(at[0]) < 3*time.Second || at[2].Sub(at[1]) < 3*time.Second {
			t.Errorf("%v, attempts at %v: want 3 s between them", err, at)
		}
	})
}

// A server that answers "too many, try again" is given more time than one that gives no answer.
func TestRefusalsThatSayWhenToTryAgainAreObeyedForLonger(t *testing.T) {
	s := defaults()
	s.retries.Patience, s.retries.Present, s.retries.Refused, s.timeout = 2*time.Second, 4*time.Second, 30*time.Second, 10*time.Second
	refused := connect.NewWireError(connect.CodeResourceExhausted, errors.New("too many requests"))
	const again = 20 * time.Millisecond
	refused.AddDetail(admission.Refusal(nil, again).Details()[0])
	longest := s.retries.Longest + again // between two attempts
	for name, c := range map[string]struct {
		answer      func(after time.Duration) error
		want        error
		least, most time.Duration
	}{
		"refused for 25 s": {func(after time.Duration) error {
			if after < 25*time.Second {
				return refused
			}
			return nil
		}, nil, 25 * time.Second, 25*time.Second + longest},
		"refused for ever": {func(time.Duration) error { return refused }, refused, 30*time.Second - longest, 30 * time.Second},
		"refused for 8 s, then gone": {func(after time.Duration) error {
			if after < 8*time.Second {
				return refused
			}
			return errRefused
		}, errRefused, 8 * time.Second, 8*time.Second + longest + s.retries.Present},
		"gone": {func(time.Duration) error { return errRefused }, errRefused, 0, 4 * time.Second},
	} {
		synctest.Test(t, func(t *testing.T) {
			began := time.Now()
			made, err := attempts(t.Context(), s, get(), func(ctx context.Context, _ int) error {
				if deadline, _ := ctx.Deadline(); time.Until(deadline) <= 0 {
					t.Errorf("%s: an attempt without time", name)
				}
				return c.answer(time.Since(began))
			})
			if took := time.Since(began); !errors.Is(err, c.want) || took < c.least || took > c.most || made > 100 {
				t.Errorf("%s: %d attempts in %s, %v: want %v within %s to %s", name, made, took, err, c.want, c.least, c.most)
			}
		})
	}
}

// A server that hangs after a refusal gets the time of a call.
func TestACallThatHangsAfterARefusalEndsInTime(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := defaults()
		s.retries.Patience, s.retries.Refused, s.timeout = 2*time.Second, 30*time.Second, 10*time.Second
		refused := connect.NewWireError(connect.CodeResourceExhausted, errors.New("too many requests"))
		refused.AddDetail(admission.Refusal(nil, time.Second).Details()[0])
		began := time.Now()
		_, err := attempts(t.Context(), s, get(), func(ctx context.Context, n int) error {
			if n <= 8 {
				return refused
			}
			<-ctx.Done()
			return connect.NewError(connect.CodeDeadlineExceeded, ctx.Err())
		})
		if took := time.Since(began); err == nil || took > 35*time.Second {
			t.Errorf("%v after %s: want it to end 10 s after the last refusal", err, took)
		}
	})
}

// A caller is refused because it has too many waiting requests. The time of these refusals counts
// as its wait.
func TestRefusalsDoNotMakeAWaitLonger(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		began := time.Now()
		refused := connect.NewWireError(connect.CodeResourceExhausted, errors.New("too many requests"))
		refused.AddDetail(admission.Refusal(nil, 5*time.Second).Details()[0])
		made, err := attempts(t.Context(), defaults(), waiting(17*time.Second), func(context.Context, int) error { return refused })
		if took := time.Since(began); !errors.Is(err, refused) || made < 2 || took > 17*time.Second {
			t.Errorf("%d attempts in %s, %v: want several within 17 s", made, took, err)
		}
	})
}

// A refusal until a time after the caller's deadline is returned at once.
func TestARefusalForLongerThanThereIsTimeIsFinal(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		refused := connect.NewWireError(connect.CodeResourceExhausted, errors.New("live allocations take too much"))
		refused.AddDetail(admission.Refusal(nil, 30*time.Second).Details()[0])
		for name, request := range map[string]connect.AnyRequest{"that does not wait": get(), "that waits for 10 s": waiting(10 * time.Second)} {
			began := time.Now()
			made, err := attempts(t.Context(), defaults(), request, func(context.Context, int) error { return refused })
			if took := time.Since(began); !errors.Is(err, refused) || made != 1 || took > 0 {
				t.Errorf("a request %s: %d attempts in %s, %v: want one", name, made, took, err)
			}
		}
	})
}

func TestAnswerIsFinal(t *testing.T) {
	short := connect.NewWireError(connect.CodeResourceExhausted, errors.New("insufficient"))
	d, err := connect.NewErrorDetail(&bursarv1.InsufficientResources{Reason: "refused"})
	if err != nil {
		t.Fatal(err)
	}
	short.AddDetail(d)
	for name, answer := range map[string]error{
		"insufficient":  short,
		"invalid":       wireError(connect.CodeInvalidArgument),
		"not found":     wireError(connect.CodeNotFound),
		"precondition":  wireError(connect.CodeFailedPrecondition),
		"denied":        wireError(connect.CodePermissionDenied),
		"internal":      wireError(connect.CodeInternal),
		"canceled":      wireError(connect.CodeCanceled),
		"own too large": connect.NewError(connect.CodeResourceExhausted, errors.New("message too large")),
	} {
		made, err := attempts(t.Context(), defaults(), get(), func(context.Context, int) error { return answer })
		if made != 1 || !errors.Is(err, answer) {
			t.Errorf("%s: %d attempts, %v; want one", name, made, err)
		}
	}
}

// What counts is every attempt, not the last one alone.
func TestACallIsUndecidedWhoseAnswerWasLostOnce(t *testing.T) {
	busy := wireError(connect.CodeResourceExhausted)
	unsent := connect.NewError(connect.CodeUnavailable, &net.OpError{Op: "dial", Net: "unix", Err: syscall.ECONNREFUSED})
	lost := connect.NewError(connect.CodeUnavailable, io.ErrUnexpectedEOF)
	invalid := wireError(connect.CodeInvalidArgument)
	for name, c := range map[string]struct {
		answers []error
		want    bool
	}{
		"answered":                          {[]error{lost, nil}, false},
		"refused":                           {[]error{invalid}, false},
		"refused as too much":               {[]error{busy, busy}, false},
		"never sent":                        {[]error{unsent, unsent}, false},
		"never sent, then refused":          {[]error{unsent, busy, invalid}, false},
		"lost":                              {[]error{lost}, true},
		"lost, then refused as too much":    {[]error{lost, busy, busy}, true},
		"lost, then refused":                {[]error{lost, invalid}, true},
		"lost, then never sent":             {[]error{lost, unsent}, true},
		"answered by more than can be read": {[]error{connect.NewError(connect.CodeResourceExhausted, errors.New("message too large"))}, true},
	} {
		synctest.Test(t, func(t *testing.T) {
			_, err := attempts(t.Context(), defaults(), get(), func(_ context.Context, n int) error {
				return c.answers[min(n, len(c.answers))-1]
			})
			if last := c.answers[len(c.answers)-1]; !errors.Is(err, last) || Undecided(err) != c.want {
				t.Errorf("%s: %v, undecided: %t; want %v, %t", name, err, Undecided(err), last, c.want)
			}
		})
	}
}

func TestPatienceEnds(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		began := time.Now()
		s := defaults()
		s.retries = RetryPolicy{Patience: 3 * time.Second}.withDefaults()
		made, err := attempts(t.Context(), s, get(), func(context.Context, int) error { return errRefused })
		if took := time.Since(began); !errors.Is(err, errRefused) || took > 3*time.Second || made < 3 {
			t.Errorf("%d attempts in %v, %v; want several within 3s and the last one's error", made, took, err)
		}
	})
}

// A caller's own time limit overrides the policy.
func TestDeadlineOfItsOwnIsACallsPatience(t *testing.T) {
	leaderless := func(t *testing.T, ctx context.Context, req connect.AnyRequest, until time.Duration) (time.Duration, error) {
		t.Helper()
		began := time.Now()
		s := defaults()
		s.retries = RetryPolicy{Patience: 3 * time.Second}.withDefaults()
		_, err := attempts(ctx, s, req, func(context.Context, int) error {
			if time.Since(began) < until {
				return errRefused
			}
			return nil
		})
		return time.Since(began), err
	}
	synctest.Test(t, func(t *testing.T) {
		if took, err := leaderless(t, t.Context(), waiting(5*time.Minute), 20*time.Second); err != nil || took > 23*time.Second {
			t.Errorf("an Allocate that waits 5 min, leaderless for 20 s: %v after %v", err, took)
		}
		if took, err := leaderless(t, t.Context(), waiting(time.Minute), time.Hour); !errors.Is(err, errRefused) || took < time.Minute || took > time.Minute+defaultTimeout {
			t.Errorf("one that waits 1 min, leaderless for long: %v after %v, want to end with its wait", err, took)
		}
		own, cancel := context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		if took, err := leaderless(t, own, get(), 50*time.Second); err != nil || took > 53*time.Second {
			t.Errorf("a call with a deadline in 1 min, leaderless for 50 s: %v after %v", err, took)
		}
		if took, err := leaderless(t, t.Context(), get(), 20*time.Second); !errors.Is(err, errRefused) || took > 3*time.Second {
			t.Errorf("a call without either: %v after %v, want the policy's patience", err, took)
		}
	})
}

func TestRetriesStayWithinTheDeadline(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		began := time.Now()
		_, err := attempts(ctx, defaults(), get(), func(context.Context, int) error { return errRefused })
		if took := time.Since(began); !errors.Is(err, errRefused) || took > time.Second {
			t.Errorf("took %v, %v; want to end within 1s with the last attempt's error", took, err)
		}
	})
}

func TestRetriesEndWhenTheCallerGoes(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithCancel(t.Context())
		_, err := attempts(ctx, defaults(), get(), func(_ context.Context, n int) error {
			if n == 2 {
				cancel()
			}
			return errRefused
		})
		if connect.CodeOf(err) != connect.CodeCanceled {
			t.Errorf("%v: want CANCELED", err)
		}
	})
}

// A call that waited longer than the patience and then lost its server is still repeated.
func TestPatienceBeginsAnewAfterALongWait(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := defaults()
		s.retries.Patience = time.Second
		made, err := attempts(t.Context(), s, get(), func(_ context.Context, n int) error {
			if n == 1 {
				time.Sleep(10 * time.Second)
				return errRefused
			}
			return nil
		})
		if err != nil || made != 2 {
			t.Errorf("%d attempts, %v; want the second to be answered", made, err)
		}
	})
}

func waiting(wait time.Duration) connect.AnyRequest {
	return connect.NewRequest(&bursarv1.AllocateRequest{RequestId: "r1", Wait: durationpb.New(wait)})
}

func TestDeadlineLeavesRoomForTheWait(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		own, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		for name, c := range map[string]struct {
			ctx      context.Context
			req      connect.AnyRequest
			min, max time.Duration
		}{
			"no wait":       {t.Context(), waiting(0), defaultTimeout, defaultTimeout},
			"waits":         {t.Context(), waiting(time.Hour), time.Hour + 10*time.Second, time.Hour + time.Minute},
			"absurd wait":   {t.Context(), waiting(1<<63 - 1), time.Hour, 10 * 24 * time.Hour},
			"negative wait": {t.Context(), waiting(-time.Hour), defaultTimeout, defaultTimeout},
			"own deadline":  {own, waiting(time.Hour), time.Second, time.Second},
		} {
			_, err := attempts(c.ctx, defaults(), c.req, func(ctx context.Context, _ int) error {
				deadline, _ := ctx.Deadline()
				if left := time.Until(deadline); left < c.min || left > c.max {
					t.Errorf("%s: %v left, want %v to %v", name, left, c.min, c.max)
				}
				return nil
			})
			if err != nil {
				t.Errorf("%s: %v", name, err)
			}
		}
	})
}

func TestDelaysAreDrawnFromNothingToTheirBound(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		policy := RetryPolicy{First: 100 * time.Millisecond, Longest: time.Second, Patience: time.Hour}
		var sum time.Duration
		const rounds = 2000
		for range rounds {
			delays := newDelays(t.Context(), policy, 0)
			bound := policy.First
			for range 8 {
				delay := delays.NextBackOff()
				if delay < 0 || delay > bound+time.Millisecond {
					t.Fatalf("delay %v is not within 0 to %v", delay, bound)
				}
				bound = min(2*bound, policy.Longest)
			}
			sum += newDelays(t.Context(), policy, 0).NextBackOff()
		}
		if mean := sum / rounds; mean < 40*time.Millisecond || mean > 60*time.Millisecond {
			t.Errorf("first delays are %v on average, want half of %v", mean, policy.First)
		}
	})
}

func TestHeartbeatIsNotRepeated(t *testing.T) {
	made := 0
	httpClient := clientFunc(func(*http.Request) (*http.Response, error) {
		made++
		return nil, errors.New("connection refused")
	})
	hosts := bursarv1connect.NewHostServiceClient(httpClient, "http://localhost", connect.WithInterceptors(&callInterceptor{settings: defaults()}))
	if _, err := hosts.Sync(t.Context(), &bursarv1.SyncRequest{}); err == nil || made != 1 {
		t.Errorf("%d attempts, %v; want one that fails", made, err)
	}
}

type clientFunc func(*http.Request) (*http.Response, error)

func (f clientFunc) Do(req *http.Request) (*http.Response, error) { return f(req) }

func TestActorIsSaid(t *testing.T) {
	s := defaults()
	s.actor = identity.Actor{Name: "alice@host-1", Users: []string{"alice"}}.Encode()
	req := get()
	if _, err := attempts(t.Context(), s, req, func(context.Context, int) error { return nil }); err != nil {
		t.Fatal(err)
	}
	got, err := identity.Decode(req.Header().Get(identity.Header))
	if err != nil || got.Name != "alice@host-1" {
		t.Errorf("%+v, %v; want the actor in the header", got, err)
	}
}
