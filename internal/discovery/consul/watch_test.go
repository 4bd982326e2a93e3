package consul

import (
	"context"
	"errors"
	"log/slog"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/hashicorp/consul/api"
)

// question is one query of a watch, with its time.
type question struct {
	index uint64
	at    time.Duration
}

// watched runs a watch against a function's answers for a time in a synctest bubble, and returns
// the queries.
func watched(t *testing.T, length time.Duration, answer func(ctx context.Context, asked []question) (uint64, error)) (asked []question) {
	t.Helper()
	client, err := New(Config{Address: "127.0.0.1:1"}, slog.New(slog.DiscardHandler))
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), length)
	defer cancel()
	begun := time.Now()
	err = client.Watch(ctx, Watch{
		About: "test", Wait: 10 * time.Second, Gap: 20 * time.Millisecond, Log: slog.New(slog.DiscardHandler),
		Ask: func(options *api.QueryOptions) (*api.QueryMeta, error) {
			asked = append(asked, question{options.WaitIndex, time.Since(begun)})
			index, err := answer(options.Context(), asked)
			return &api.QueryMeta{LastIndex: index}, err
		},
	})
	if !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("the watch ended with %v: want it to end with its context", err)
	}
	return asked
}

func indexes(asked []question) []uint64 {
	list := make([]uint64, 0, len(asked))
	for _, q := range asked {
		list = append(list, q.index)
	}
	return list
}

var errAway = errors.New("connection refused")

// A Consul that has lost its data restarts its index: a query with the old index would be held for
// the whole wait time, although the answer has changed.
func TestQuestionAfterAFailureIsNotHeld(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		asked := watched(t, 9*time.Second, func(ctx context.Context, asked []question) (uint64, error) {
			switch n := len(asked); {
			case n == 1:
				return 23, nil
			case n <= 4:
				return 0, errAway
			case asked[n-1].index == 0:
				return 7, nil // wiped
			}
			<-ctx.Done()
			return 0, ctx.Err()
		})
		if got, want := indexes(asked), []uint64{0, 23, 0, 0, 0, 7}; !slices.Equal(got, want) {
			t.Errorf("asked with the indexes %v: want %v", got, want)
		}
	})
}

func TestIndexThatWentBackInAnAnswerIsResetOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		asked := watched(t, 9*time.Second, func(ctx context.Context, asked []question) (uint64, error) {
			switch len(asked) {
			case 1:
				return 50, nil
			case 2, 3:
				return 20, nil
			}
			<-ctx.Done()
			return 0, ctx.Err()
		})
		if got, want := indexes(asked), []uint64{0, 50, 0, 20}; !slices.Equal(got, want) {
			t.Errorf("asked with the indexes %v: want %v", got, want)
		}
	})
}

// A server that answers at once and fails every held query, as some proxies do, is not asked at the
// rate of the first failure for ever.
func TestPausesGrowThoughQuestionsThatAreNotHeldAreAnswered(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		asked := watched(t, 10*time.Minute, func(_ context.Context, asked []question) (uint64, error) {
			if asked[len(asked)-1].index > 0 {
				return 0, errAway
			}
			return 23, nil
		})
		if most := 2 * (10 + int(10*time.Minute/(lastPause/2))); len(asked) > most {
			t.Errorf("asked %d times in 10 minutes: want at most %d", len(asked), most)
		}
	})
}

// The pauses start over after a held query was answered.
func TestPausesBeginAnewAfterAQuestionThatWasHeld(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const failures = 20
		asked := watched(t, 10*time.Minute, func(ctx context.Context, asked []question) (uint64, error) {
			switch n := len(asked); {
			case n <= failures, n == failures+3:
				return 0, errAway
			case n <= failures+2:
				return 23, nil
			}
			<-ctx.Done()
			return 0, ctx.Err()
		})
		if len(asked) < failures+4 {
			t.Fatalf("asked %d times: want %d", len(asked), failures+4)
		}
		failed, next := asked[failures+2], asked[failures+3]
		if pause := next.at - failed.at; next.index != 0 || pause > 2*firstPause {
			t.Errorf("asked %v after a failure with the index %d: want at most %v, and 0", pause, next.index, 2*firstPause)
		}
	})
}

// hurry is a state that a test changes.
type hurry struct {
	mu      sync.Mutex
	on      bool          // guarded by mu
	changed chan struct{} // guarded by mu
}

func (h *hurry) set(on bool) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.on = on
	close(h.changed)
	h.changed = make(chan struct{})
}

func (h *hurry) get() (bool, <-chan struct{}) {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.on, h.changed
}

// A hanging Consul server holds a query for its whole time. When the answer is needed at once, that
// query is canceled, and the following ones are short and not held.
func TestQuestionsInAHurryAreNotHeld(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		client, err := New(Config{Address: "127.0.0.1:1"}, slog.New(slog.DiscardHandler))
		if err != nil {
			t.Fatal(err)
		}
		ctx, cancel := context.WithTimeout(t.Context(), 9*time.Second)
		defer cancel()
		state := &hurry{changed: make(chan struct{})}
		time.AfterFunc(4*time.Second, func() { state.set(true) })
		begun := time.Now()
		var asked []question
		_ = client.Watch(ctx, Watch{
			About: "test", Wait: 10 * time.Second, Gap: 20 * time.Millisecond, Log: slog.New(slog.DiscardHandler), Hurried: state.get,
			Ask: func(options *api.QueryOptions) (*api.QueryMeta, error) {
				asked = append(asked, question{options.WaitIndex, time.Since(begun)})
				n := len(asked)
				if n == 2 || n == 3 || n == 4 { // the server hangs
					<-options.Context().Done()
					return nil, options.Context().Err()
				}
				if n == 8 {
					state.set(false)
				}
				return &api.QueryMeta{LastIndex: 23}, nil
			},
		})
		if got, want := indexes(asked[:8]), []uint64{0, 23, 0, 0, 0, 0, 0, 0}; !slices.Equal(got, want) {
			t.Errorf("indexes %v: want %v", got, want)
		}
		if at := asked[2].at; at != 4*time.Second+20*time.Millisecond && at != 4*time.Second {
			t.Errorf("the held question was given up after %s: want 4s, when the answer was needed", at)
		}
		if cost := asked[4].at - asked[3].at; cost > 2*time.Second {
			t.Errorf("a server that hangs costs %s a question: want 2s at most", cost)
		}
		if gap := asked[6].at - asked[5].at; gap != hurriedGap {
			t.Errorf("questions follow each other after %s: want %s", gap, hurriedGap)
		}
		if asked[8].index == 0 {
			t.Error("without a hurry questions are held again: want an index")
		}
	})
}

// A server that knows no leader answers from old data: that is no answer.
func TestAnswersWithoutALeaderDoNotCount(t *testing.T) {
	for _, c := range []struct {
		meta api.QueryMeta
		want error
	}{
		{api.QueryMeta{LastIndex: 5, KnownLeader: true}, nil},
		{api.QueryMeta{LastIndex: 5}, ErrNoLeader},
		{api.QueryMeta{LastIndex: 5, KnownLeader: true, LastContact: time.Minute}, ErrNoLeader},
		{api.QueryMeta{}, ErrNotConsul},
	} {
		if err := Current(&c.meta); !errors.Is(err, c.want) {
			t.Errorf("%+v: %v, want %v", c.meta, err, c.want)
		}
	}
}
