package coordinator

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"

	"connectrpc.com/connect"

	"github.com/bursar/bursar/coordinator/store"
	bursarv1 "github.com/bursar/bursar/proto/bursar/v1"
)

// failing is a store that cannot be written while there is an error.
type failing struct {
	store.Store

	err atomic.Pointer[error]
}

func (s *failing) Commit(ctx context.Context, b store.Batch) error {
	if err := s.err.Load(); err != nil {
		return *err
	}
	return s.Store.Commit(ctx, b)
}

func (s *failing) Lead(ctx context.Context, atLeast uint64) (store.Meta, error) {
	if err := s.err.Load(); err != nil {
		return store.Meta{}, *err
	}
	return s.Store.Lead(ctx, atLeast)
}

// If a coordinator does not lead because of its store, it says so to callers, without what others
// wrote into the store.
func TestCallersAreToldWhyNobodyLeads(t *testing.T) {
	for name, test := range map[string]struct {
		err          error
		want, secret string
	}{
		"a full disk":    {err: fmt.Errorf("store: commit: %w", store.ErrFull), want: store.ErrFull.Error()},
		"an unread row":  {err: &store.RowError{Table: store.QuotaTable, Key: "user=alice", Err: store.ErrDamaged}, want: "a row of the store cannot be read: the log names it", secret: "alice"},
		"a database":     {err: fmt.Errorf("connect to user=bursar host=db: %w", store.ErrAway), want: store.ErrAway.Error(), secret: "user=bursar"},
		"another fault":  {err: errors.New("user=bursar host=db"), want: "the log names it", secret: "user=bursar"},
		"a store's file": {err: fmt.Errorf("store: commit: %w", store.ErrGone), want: store.ErrGone.Error()},
	} {
		t.Run(name, func(t *testing.T) {
			s := &failing{Store: openSQLite(t, filepath.Join(t.TempDir(), "ledger.db"))}
			f := start(t, Config{}, s)
			f.host("h", gib)
			s.err.Store(&test.err)
			_, _ = f.allocations.Allocate(t.Context(), request("r", 1))
			said := ""
			eventually(t, "status says why nobody leads", func() bool {
				_, err := f.cluster.Status(t.Context(), &bursarv1.StatusRequest{})
				if err != nil {
					said = err.Error()
				}
				if connect.CodeOf(err) == connect.CodeUnavailable && strings.Contains(said, "lead") && strings.Contains(said, "request_id") {
					t.Errorf("it is told what is for callers of a commit: %s", said)
				}
				return connect.CodeOf(err) == connect.CodeUnavailable && strings.Contains(said, "no coordinator is known to lead") && strings.Contains(said, test.want)
			})
			if test.secret != "" && strings.Contains(said, test.secret) {
				t.Errorf("it names %s: %s", test.secret, said)
			}
			t.Log(said)
			s.err.Store(nil)
			eventually(t, "it leads again", f.server.loop.Leading)
			if err := f.server.loop.Unled(); err != nil || len(f.status().GetWarnings()) > 0 {
				t.Errorf("it still says %v, %v", err, f.status().GetWarnings())
			}
			ended := f.status().GetLastLeadership()
			reason := ended.GetReason()
			if ended.GetEpoch() == 0 || ended.GetEndTime() == nil || !strings.HasPrefix(reason, "the store: ") || !strings.Contains(reason, test.want) {
				t.Errorf("status says of the last leadership %v, want an epoch, a time, and a reason with %q", ended, test.want)
			}
			if test.secret != "" && strings.Contains(reason, test.secret) {
				t.Errorf("the reason names %s: %s", test.secret, reason)
			}
		})
	}
}
