package callers

import (
	"context"
	"errors"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"connectrpc.com/connect"

	"github.com/bursar/bursar/agent/report"
	bursarv1 "github.com/bursar/bursar/proto/bursar/v1"
	"github.com/bursar/bursar/proto/bursar/v1/bursarv1connect"
)

func TestAnsweredHeartbeatEndsThePausesOfCallers(t *testing.T) {
	unavailable := connect.NewError(connect.CodeUnavailable, errors.New("away"))
	p := &heartbeats{err: unavailable}
	beat(t, p, Options{}, func(s *subject) {
		var back atomic.Bool
		// the test's own is not of the bubble
		ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
		defer cancel()
		const callers = 20
		answered := make(chan time.Time, callers)
		for range callers {
			go func() {
				if _, err := relay(ctx, s.API, func(context.Context, *bursarv1.ReleaseRequest) (*bursarv1.ReleaseResponse, error) {
					if !back.Load() {
						return nil, unavailable
					}
					return &bursarv1.ReleaseResponse{}, nil
				}, &bursarv1.ReleaseRequest{}); err != nil {
					t.Error(err)
				}
				answered <- time.Now()
			}()
		}
		time.Sleep(10 * time.Second) // their pauses are as long as they get
		p.fail(nil)
		back.Store(true)
		came := time.Now()
		s.syncDue.BringForward(came)
		for range callers {
			if late := (<-answered).Sub(came); late > report.Gap {
				t.Errorf("a caller was answered %v after a heartbeat was", late)
			}
		}
	})
}

// Asking again would be in vain until the next heartbeat: an agent that gets this answer is to
// send one first.
func TestRefusalForWantOfAReportIsNotAskedAgain(t *testing.T) {
	beat(t, &heartbeats{}, Options{}, func(s *subject) {
		early := connect.NewError(connect.CodeUnavailable, errors.New("hosts have not reported yet"))
		detail, err := connect.NewErrorDetail(&bursarv1.InsufficientResources{Shortfalls: []*bursarv1.Shortfall{{
			Account: &bursarv1.AccountName{Kind: bursarv1.AccountKind_ACCOUNT_KIND_HOST}, Dimension: "memory", Note: "health",
		}}})
		if err != nil {
			t.Fatal(err)
		}
		early.AddDetail(detail)
		// the test's own is not of the bubble
		ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
		defer cancel()
		calls := 0
		_, err = relay(ctx, s.API, func(context.Context, *bursarv1.AllocateRequest) (*bursarv1.AllocateResponse, error) {
			calls++
			return nil, early
		}, &bursarv1.AllocateRequest{})
		if calls != 1 || !s.unknownTo(err) {
			t.Errorf("%d calls, %v: want one, and that the host is to report", calls, err)
		}
	})
}

// A host that operators have closed is known: another report would not help. Coordinators of
// versions that have no codes say "health" of it, too.
func TestAClosedHostIsNotUnknown(t *testing.T) {
	for name, test := range map[string]struct {
		code bursarv1.ShortfallNote
		note string
		why  string
		want bool
	}{
		"cordoned":     {bursarv1.ShortfallNote_SHORTFALL_NOTE_CORDONED, "health", "", false},
		"draining":     {bursarv1.ShortfallNote_SHORTFALL_NOTE_DRAINING, "health", "", false},
		"suspect":      {bursarv1.ShortfallNote_SHORTFALL_NOTE_HEALTH, "health", "", true},
		"not measured": {bursarv1.ShortfallNote_SHORTFALL_NOTE_UNKNOWN, "unknown", "", true},
		"by its text":  {bursarv1.ShortfallNote_SHORTFALL_NOTE_UNSPECIFIED, "health", "", true},
		"full":         {bursarv1.ShortfallNote_SHORTFALL_NOTE_UNSPECIFIED, "", "", false},
		"not there":    {bursarv1.ShortfallNote_SHORTFALL_NOTE_MISSING, "missing", "there is no such host yet", true},
		"without GPUs": {bursarv1.ShortfallNote_SHORTFALL_NOTE_MISSING, "missing", "", false},
	} {
		if got := notYetKnown(&bursarv1.Shortfall{
			Account: &bursarv1.AccountName{Kind: bursarv1.AccountKind_ACCOUNT_KIND_HOST}, NoteCode: test.code, Note: test.note, Detail: test.why,
		}); got != test.want {
			t.Errorf("%s: %t", name, got)
		}
	}
}

// The same goes for a leader that is not named yet: a caller's request was refused by the one
// before, and this one lets it wait.
func TestAHostComesToALeaderThatItsCallerHasFound(t *testing.T) {
	p := &heartbeats{}
	beat(t, p, Options{Allocations: &refusesOnce{}}, func(s *subject) {
		time.Sleep(10 * time.Second)
		call := s.whileWaiting(&bursarv1.AllocateRequest{})
		ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
		defer cancel()
		began := time.Now()
		for range 2 {
			_, _ = call(ctx, &bursarv1.AllocateRequest{})
		}
		synctest.Wait()
		if got := p.last.Sub(began); got < 0 || got > report.CallersSpread {
			t.Errorf("it reported %s after its caller's request came to the leader; want it within %s", got, report.CallersSpread)
		}
	})
}

// refusesOnce are two coordinators: the first does not lead, the second does not answer.
type refusesOnce struct {
	bursarv1connect.AllocationServiceClient

	asked int
}

func (r *refusesOnce) Allocate(ctx context.Context, _ *bursarv1.AllocateRequest) (*bursarv1.AllocateResponse, error) {
	if r.asked++; r.asked > 1 {
		<-ctx.Done()
	}
	return nil, connect.NewError(connect.CodeUnavailable, errors.New("not leading"))
}
