package main

import (
	"context"
	"errors"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"connectrpc.com/connect"

	"github.com/bursar/bursar/client"
	bursarv1 "github.com/bursar/bursar/proto/bursar/v1"
	"github.com/bursar/bursar/proto/bursar/v1/bursarv1connect"
)

// fakeCoordinator answers with given allocations.
type fakeCoordinator struct {
	bursarv1connect.UnimplementedAllocationServiceHandler

	live []*bursarv1.Allocation
}

func (f *fakeCoordinator) List(context.Context, *bursarv1.AllocationServiceListRequest) (*bursarv1.AllocationServiceListResponse, error) {
	return &bursarv1.AllocationServiceListResponse{Allocations: f.live}, nil
}

func (f *fakeCoordinator) Get(_ context.Context, q *bursarv1.AllocationServiceGetRequest) (*bursarv1.AllocationServiceGetResponse, error) {
	for _, a := range f.live {
		if a.GetId() == q.GetId() {
			return &bursarv1.AllocationServiceGetResponse{Allocation: a}, nil
		}
	}
	return nil, connect.NewError(connect.CodeNotFound, errors.New("no such allocation"))
}

func TestWhatWasGrantedIsComparedWithTheLedger(t *testing.T) {
	reserved := func(id, request string) *bursarv1.Allocation {
		return &bursarv1.Allocation{Id: id, RequestId: request, State: bursarv1.AllocationState_ALLOCATION_STATE_RESERVED}
	}
	ended := reserved("b", "2")
	ended.State = bursarv1.AllocationState_ALLOCATION_STATE_EXPIRED
	got := []call{{request: "1", id: "a"}, {request: "2", id: "b"}}
	for _, c := range []struct {
		name string
		live []*bursarv1.Allocation
		want string // in the error; empty: no error
	}{
		{"as it should be", []*bursarv1.Allocation{reserved("a", "1"), reserved("b", "2")}, ""},
		{"lost", []*bursarv1.Allocation{reserved("a", "1")}, "b was granted to request 2 and is lost"},
		{"given to another", []*bursarv1.Allocation{reserved("a", "1"), reserved("b", "3")}, "b was granted to request 2 and is lost"},
		{"ended", []*bursarv1.Allocation{reserved("a", "1"), ended}, "want it reserved"},
		{"doubled", []*bursarv1.Allocation{reserved("a", "1"), reserved("b", "2"), reserved("c", "2")}, "c of request 2 is in the ledger, and nobody got it"},
	} {
		t.Run(c.name, func(t *testing.T) {
			_, handler := bursarv1connect.NewAllocationServiceHandler(&fakeCoordinator{live: c.live})
			server := httptest.NewServer(handler)
			defer server.Close()
			coordinator, err := client.New(server.URL, client.WithoutRetries())
			if err != nil {
				t.Fatal(err)
			}
			defer coordinator.Close()
			err = (&launchers{}).compare(t.Context(), coordinator, got)
			if c.want == "" && err != nil {
				t.Errorf("got %v, want no error", err)
			}
			if c.want != "" && (err == nil || !strings.Contains(err.Error(), c.want)) {
				t.Errorf("got %v, want %q", err, c.want)
			}
		})
	}
}

func TestTheFirstGrantAfterAMomentIsFound(t *testing.T) {
	start := time.Now()
	at := func(seconds int) time.Time { return start.Add(time.Duration(seconds) * time.Second) }
	l := &launchers{ended: make(chan struct{}), calls: []call{
		{ended: at(1)},
		{ended: at(5)},
		{ended: at(4)},
		{ended: at(3), err: errors.New("refused")},
	}}
	got, err := l.answeredAfter(t.Context(), at(2))
	if err != nil || !got.Equal(at(4)) {
		t.Errorf("got %s, %v: want the grant after 4 s", got.Sub(start), err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := l.answeredAfter(ctx, at(6)); !errors.Is(err, context.Canceled) {
		t.Errorf("got %v where none comes: want that it was given up", err)
	}
}
