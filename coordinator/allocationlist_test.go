package coordinator

import (
	"context"
	"fmt"
	"path/filepath"
	"slices"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"google.golang.org/protobuf/types/known/durationpb"
	"google.golang.org/protobuf/types/known/timestamppb"

	"github.com/bursar/bursar/coordinator/ledger"
	"github.com/bursar/bursar/coordinator/store"
	bursarv1 "github.com/bursar/bursar/proto/bursar/v1"
)

func TestListsArePagedAndFiltered(t *testing.T) {
	f := start(t, Config{}, nil)
	f.host("h1", gib)
	f.host("h2", gib)
	var all, mine, ended []string
	for i := range 25 {
		req := request(fmt.Sprint("r", i), mib)
		req.Host = &bursarv1.HostWishes{Id: fmt.Sprint("h", 1+i%2)}
		if i%5 == 0 {
			req.Labels["user"] = "bob"
		}
		req.Name = fmt.Sprint("job ", i)
		a := f.allocate(req)
		if i%3 == 0 {
			f.release(a.GetId())
			ended = append(ended, a.GetId())
			continue
		}
		all = append(all, a.GetId())
		if i%5 == 0 {
			mine = append(mine, a.GetId())
		}
	}
	slices.Reverse(ended) // the latest first
	check := func(name string, req *bursarv1.AllocationServiceListRequest, want []string) {
		t.Helper()
		for _, size := range []int32{0, 1, 7, 1000} {
			req.PageSize, req.PageToken = size, ""
			var got []string
			for range 100 {
				res, err := f.allocations.List(t.Context(), req)
				if err != nil {
					t.Fatalf("%s: %v", name, err)
				}
				if size > 0 && len(res.GetAllocations()) > int(size) {
					t.Errorf("%s: a page of %d: want at most %d", name, len(res.GetAllocations()), size)
				}
				for _, a := range res.GetAllocations() {
					got = append(got, a.GetId())
				}
				if res.GetRevision() == 0 {
					t.Errorf("%s: no revision", name)
				}
				if req.PageToken = res.GetNextPageToken(); req.PageToken == "" {
					break
				}
			}
			if diff := cmp.Diff(want, got); diff != "" {
				t.Errorf("%s in pages of %d (-want +got):\n%s", name, size, diff)
			}
		}
	}
	list := func(change func(*bursarv1.AllocationServiceListRequest)) *bursarv1.AllocationServiceListRequest {
		req := &bursarv1.AllocationServiceListRequest{}
		change(req)
		return req
	}
	check("all that live", list(func(*bursarv1.AllocationServiceListRequest) {}), all)
	check("of a user", list(func(r *bursarv1.AllocationServiceListRequest) { r.Labels = map[string]string{"user": "bob"} }), mine)
	check("with any user", list(func(r *bursarv1.AllocationServiceListRequest) { r.Labels = map[string]string{"user": "*"} }), all)
	check("with a label that none has", list(func(r *bursarv1.AllocationServiceListRequest) { r.Labels = map[string]string{"x": "*"} }), nil)
	check("active", list(func(r *bursarv1.AllocationServiceListRequest) { r.States = []bursarv1.AllocationState{active} }), nil)
	named := []string{all[2], all[5]}
	for i, id := range named {
		confirm := &bursarv1.ConfirmRequest{Id: id, Lease: durationpb.New(time.Hour), Phase: []bursarv1.Phase{bursarv1.Phase_PHASE_STARTING, bursarv1.Phase_PHASE_READY}[i]}
		if _, err := f.allocations.Confirm(t.Context(), confirm); err != nil {
			t.Fatal(err)
		}
	}
	check("starting", list(func(r *bursarv1.AllocationServiceListRequest) {
		r.Phases = []bursarv1.Phase{bursarv1.Phase_PHASE_STARTING}
	}), named[:1])
	check("starting or ready", list(func(r *bursarv1.AllocationServiceListRequest) {
		r.Phases = []bursarv1.Phase{bursarv1.Phase_PHASE_STARTING, bursarv1.Phase_PHASE_READY}
	}), named)
	check("named r5", list(func(r *bursarv1.AllocationServiceListRequest) { r.Name = "r5"; r.Ended = true }), nil)
	check("named", list(func(r *bursarv1.AllocationServiceListRequest) { r.Name = "job 4"; r.Ended = true }), all[2:3])
	check("by prefix", list(func(r *bursarv1.AllocationServiceListRequest) { r.IdPrefix = all[3][:12] }), all[3:4])
	check("with the history", list(func(r *bursarv1.AllocationServiceListRequest) { r.Ended = true }), slices.Concat(all, ended))
	check("the history alone", list(func(r *bursarv1.AllocationServiceListRequest) {
		r.States = []bursarv1.AllocationState{released, canceled}
	}), ended)

	// By when they ended, from one time to before another.
	times := make([]*timestamppb.Timestamp, len(ended))
	for i, id := range ended {
		times[i] = f.get(id).GetEndTime()
	}
	within := func(since, before *timestamppb.Timestamp) (ids []string) {
		for i, id := range ended {
			if at := times[i].AsTime(); (since == nil || !at.Before(since.AsTime())) && (before == nil || at.Before(before.AsTime())) {
				ids = append(ids, id)
			}
		}
		return ids
	}
	for name, c := range map[string]struct{ since, before *timestamppb.Timestamp }{
		"since the first": {times[len(times)-1], nil}, "since the third": {times[len(times)-3], nil}, "since the last": {times[0], nil},
		"before the first": {nil, times[len(times)-1]}, "before the last": {nil, times[0]}, "in between": {times[5], times[2]},
		"at no time": {times[2], times[2]}, "in the future": {timestamppb.New(time.Now().AddDate(1, 0, 0)), nil},
		"of all times": {timestamppb.New(time.Unix(0, 0)), timestamppb.New(time.Now().AddDate(50, 0, 0))}, "before all": {nil, timestamppb.New(time.Unix(0, 0))},
	} {
		check(name, list(func(r *bursarv1.AllocationServiceListRequest) { r.EndedSince, r.EndedBefore = c.since, c.before }), within(c.since, c.before))
	}
	check("that live, and ended", list(func(r *bursarv1.AllocationServiceListRequest) {
		r.EndedSince, r.States = times[5], []bursarv1.AllocationState{reserved}
	}), nil)
	check("of a host, and ended", list(func(r *bursarv1.AllocationServiceListRequest) { r.EndedSince, r.HostId = times[0], "h2" }), nil)

	res, err := f.allocations.List(t.Context(), &bursarv1.AllocationServiceListRequest{PageSize: 1})
	if err != nil {
		t.Fatal(err)
	}
	_, err = f.allocations.List(t.Context(), &bursarv1.AllocationServiceListRequest{PageToken: res.GetNextPageToken(), HostId: "h1"})
	if fieldOf(err) != "page_token" {
		t.Errorf("a token of another query: %v", err)
	}
}

// scarce is a store that looks at as many ended rows as one call may, and finds none of those that
// are wanted.
type scarce struct {
	store.Store

	reads int
}

func (s *scarce) History(context.Context, store.HistoryQuery) ([]ledger.Allocation, string, error) {
	s.reads++
	return nil, store.Position{ID: 1}.Token(), nil
}

func TestAListLooksAtABoundedPartOfTheHistory(t *testing.T) {
	s := &scarce{Store: openSQLite(t, filepath.Join(t.TempDir(), "ledger.db"))}
	f := start(t, Config{}, s)
	ctx, cancel := context.WithTimeout(t.Context(), 5*time.Second)
	defer cancel()
	page, err := f.allocations.List(ctx, &bursarv1.AllocationServiceListRequest{PageSize: 1, Ended: true, Labels: map[string]string{"user": "nobody"}})
	if err != nil || page.GetNextPageToken() == "" || s.reads != 1 {
		t.Errorf("%v, %v after %d reads of the store: want a token after one", page, err, s.reads)
	}
}
