package client_test

import (
	"context"
	"errors"
	"fmt"
	"net"
	"regexp"
	"strings"
	"testing"
	"time"

	"buf.build/gen/go/bufbuild/protovalidate/protocolbuffers/go/buf/validate"
	"connectrpc.com/connect"
	"github.com/google/go-cmp/cmp"
	"google.golang.org/protobuf/proto"

	"github.com/bursar/bursar/client"
	bursarv1 "github.com/bursar/bursar/proto/bursar/v1"
)

func memory(bytes int64) *bursarv1.Resource { return &bursarv1.Resource{MemoryBytes: &bytes} }

func TestAllocateIsOneRequestHoweverOftenItIsSent(t *testing.T) {
	fake := &fakeAllocations{}
	var ids []string
	fake.allocate = func(_ context.Context, req *bursarv1.AllocateRequest) (*bursarv1.AllocateResponse, error) {
		ids = append(ids, req.GetRequestId())
		if len(ids) < 3 {
			return nil, connect.NewError(connect.CodeUnavailable, errors.New("leaving"))
		}
		return granted(req), nil
	}
	c := newClient(t, fake)
	req := &bursarv1.AllocateRequest{Resource: memory(1 << 20)}
	res, err := c.Allocations().Allocate(t.Context(), req)
	if err != nil {
		t.Fatal(err)
	}
	if !regexp.MustCompile(`^[0-9a-v]{26}$`).MatchString(ids[0]) || ids[1] != ids[0] || ids[2] != ids[0] {
		t.Errorf("request ids %q: want three times the same minted one", ids)
	}
	if req.GetRequestId() != "" {
		t.Errorf("the caller's message was changed: %v", req)
	}
	if res.GetAllocation().GetRequestId() != ids[0] {
		t.Errorf("got %v", res)
	}
}

func TestAllocateKeepsTheCallersRequestID(t *testing.T) {
	fake := &fakeAllocations{}
	c := newClient(t, fake)
	res, err := c.Allocations().Allocate(t.Context(), &bursarv1.AllocateRequest{RequestId: "mine"})
	if err != nil || res.GetAllocation().GetRequestId() != "mine" {
		t.Errorf("%v, %v", res, err)
	}
}

// A request whose id only the server knows cannot be repeated.
func TestAllocateCancelsWhatNobodyCanAskFor(t *testing.T) {
	for id, want := range map[string][]string{"": {"allocate", "allocate", "cancel "}, "mine": {"allocate", "allocate"}} {
		lost := lostThenRefused()
		var minted string
		fake := &fakeAllocations{allocate: func(ctx context.Context, req *bursarv1.AllocateRequest) (*bursarv1.AllocateResponse, error) {
			minted = req.GetRequestId()
			return lost(ctx, req)
		}}
		_, err := newClient(t, fake).Allocations().Allocate(t.Context(), &bursarv1.AllocateRequest{RequestId: id})
		if connect.CodeOf(err) != connect.CodeResourceExhausted {
			t.Errorf("%v: want RESOURCE_EXHAUSTED", err)
		}
		if id == "" {
			want[2] += minted
		}
		if diff := cmp.Diff(want, fake.calls.all()); diff != "" {
			t.Errorf("request id %q: %s", id, diff)
		}
	}
}

func TestErrorsAreToldApart(t *testing.T) {
	short := &bursarv1.InsufficientResources{Reason: "refused", Shortfalls: []*bursarv1.Shortfall{{
		Account:   &bursarv1.AccountName{Kind: bursarv1.AccountKind_ACCOUNT_KIND_HOST, Labels: map[string]string{"host": "h"}},
		Dimension: "memory", Requested: 4, Available: 3, Limit: 8,
	}}}
	field := &bursarv1.InvalidField{Field: "labels[user]", Value: "\x00", Want: "text"}
	violations := &validate.Violations{Violations: []*validate.Violation{{Message: new("value is required")}}}
	for name, c := range map[string]struct {
		code   connect.Code
		detail proto.Message
		check  func(error) bool
	}{
		"insufficient": {connect.CodeResourceExhausted, short, func(err error) bool {
			got, ok := client.Insufficient(err)
			return ok && proto.Equal(got, short)
		}},
		"insufficient for good": {
			connect.CodeResourceExhausted, &bursarv1.InsufficientResources{Verdict: bursarv1.InsufficientResources_VERDICT_NEVER}, client.Never,
		},
		"insufficient now": {
			connect.CodeResourceExhausted, &bursarv1.InsufficientResources{Verdict: bursarv1.InsufficientResources_VERDICT_NOT_NOW},
			func(err error) bool { return !client.Never(err) },
		},
		"invalid field": {connect.CodeInvalidArgument, field, func(err error) bool {
			got, ok := client.InvalidField(err)
			return ok && proto.Equal(got, field) && client.Invalid(err)
		}},
		"violations": {connect.CodeInvalidArgument, violations, func(err error) bool {
			got := client.Violations(err)
			return len(got) == 1 && got[0].GetMessage() == "value is required"
		}},
		"not found":       {connect.CodeNotFound, nil, client.NotFound},
		"precondition":    {connect.CodeFailedPrecondition, nil, client.Precondition},
		"denied":          {connect.CodePermissionDenied, nil, client.Denied},
		"unauthenticated": {connect.CodeUnauthenticated, nil, client.Denied},
		"unavailable":     {connect.CodeUnavailable, nil, client.Unavailable},
		"too late":        {connect.CodeDeadlineExceeded, nil, client.Unavailable},
	} {
		fake := &fakeAllocations{allocate: func(context.Context, *bursarv1.AllocateRequest) (*bursarv1.AllocateResponse, error) {
			err := connect.NewError(c.code, errors.New(name))
			if c.detail != nil {
				d, detailErr := connect.NewErrorDetail(c.detail)
				if detailErr != nil {
					return nil, detailErr
				}
				err.AddDetail(d)
			}
			return nil, err
		}}
		_, err := newClient(t, fake, client.WithoutRetries()).Allocations().Allocate(t.Context(), &bursarv1.AllocateRequest{})
		if !c.check(fmt.Errorf("wrapped: %w", err)) {
			t.Errorf("%s: %v is not recognised", name, err)
		}
		_, insufficient := client.Insufficient(err)
		if insufficient != strings.HasPrefix(name, "insufficient") || client.Never(err) != (name == "insufficient for good") || client.NotFound(err) != (name == "not found") {
			t.Errorf("%s: %v is taken for another", name, err)
		}
	}
	if client.NotFound(nil) || client.Unavailable(nil) || client.Denied(nil) {
		t.Error("nil is an error")
	}
}

func TestNobodyThereIsUnavailable(t *testing.T) {
	c, err := client.New(t.TempDir()+"/no.sock", client.WithoutRetries())
	if err != nil {
		t.Fatal(err)
	}
	_, err = c.Allocations().Get(t.Context(), &bursarv1.AllocationServiceGetRequest{Id: "a"})
	if !client.Unavailable(err) {
		t.Errorf("%v: want unavailable", err)
	}
}

// A server that is killed closes its connections. The kernel reports that to the other end as a
// reset, if something was unread.
func TestServerThatDiesUnderACallIsUnavailable(t *testing.T) {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	accepted := make(chan struct{})
	go func() {
		defer close(accepted)
		for {
			conn, err := listener.Accept()
			if err != nil {
				return
			}
			_, _ = conn.Read(make([]byte, 1))
			if tcp, ok := conn.(*net.TCPConn); ok {
				_ = tcp.SetLinger(0)
			}
			_ = conn.Close()
		}
	}()
	defer func() {
		_ = listener.Close()
		<-accepted
	}()
	for range 20 { // it may be noticed while sending or while waiting
		c, err := client.New(listener.Addr().String(), client.WithoutRetries())
		if err != nil {
			t.Fatal(err)
		}
		_, err = c.Allocations().Allocate(t.Context(), &bursarv1.AllocateRequest{})
		if connect.CodeOf(err) != connect.CodeUnavailable {
			t.Errorf("%v: want UNAVAILABLE", err)
		}
		c.Close()
	}
}

func TestListReadsAllPages(t *testing.T) {
	pages := map[string]*bursarv1.AllocationServiceListResponse{
		"":   {Allocations: []*bursarv1.Allocation{{Id: "a"}, {Id: "b"}}, NextPageToken: "p2", Revision: 7},
		"p2": {NextPageToken: "p3", Revision: 8},
		"p3": {Allocations: []*bursarv1.Allocation{{Id: "c"}}, Revision: 9},
	}
	fake := &fakeAllocations{list: func(req *bursarv1.AllocationServiceListRequest) (*bursarv1.AllocationServiceListResponse, error) {
		if req.GetHostId() != "h" {
			return nil, connect.NewError(connect.CodeInvalidArgument, errors.New("the filter is gone"))
		}
		return pages[req.GetPageToken()], nil
	}}
	c := newClient(t, fake)
	req := &bursarv1.AllocationServiceListRequest{HostId: "h"}
	var ids []string
	for page, err := range c.ListAllocations(t.Context(), req) {
		if err != nil {
			t.Fatal(err)
		}
		for _, a := range page.GetAllocations() {
			ids = append(ids, a.GetId())
		}
	}
	if diff := cmp.Diff([]string{"a", "b", "c"}, ids); diff != "" {
		t.Error(diff)
	}
	if req.GetPageToken() != "" {
		t.Error("the caller's message was changed")
	}
	for _, err := range c.ListAllocations(t.Context(), nil) {
		if !client.Invalid(err) {
			t.Errorf("%v: want the server's error", err)
		}
	}
}

func TestWatchGoesOnWhereItWas(t *testing.T) {
	fake := &fakeAllocations{}
	next := uint64(10)
	fake.watch = func(
		_ context.Context, req *bursarv1.AllocationServiceWatchRequest, stream *connect.ServerStream[bursarv1.AllocationServiceWatchResponse],
	) error {
		if req.GetHostId() != "h" {
			return connect.NewError(connect.CodeInvalidArgument, errors.New("the filter is gone"))
		}
		for range 2 {
			next++
			if err := stream.Send(&bursarv1.AllocationServiceWatchResponse{
				Allocation: &bursarv1.Allocation{Id: "a", Revision: next}, Revision: next,
			}); err != nil {
				return err
			}
		}
		switch next {
		case 12:
			return connect.NewError(connect.CodeUnavailable, errors.New("another leads"))
		case 14:
			return nil // shut down in order
		}
		return connect.NewError(connect.CodeOutOfRange, errors.New("compacted"))
	}
	c := newClient(t, fake)
	var revisions []uint64
	var last error
	for msg, err := range c.WatchAllocations(t.Context(), &bursarv1.AllocationServiceWatchRequest{AfterRevision: 10, HostId: "h"}) {
		if last = err; err == nil {
			revisions = append(revisions, msg.GetRevision())
		}
	}
	if diff := cmp.Diff([]uint64{11, 12, 13, 14, 15, 16}, revisions); diff != "" {
		t.Error(diff)
	}
	if connect.CodeOf(last) != connect.CodeOutOfRange {
		t.Errorf("ended with %v: want OUT_OF_RANGE", last)
	}
	if diff := cmp.Diff([]string{"watch 10", "watch 12", "watch 14"}, fake.calls.all()); diff != "" {
		t.Error(diff)
	}
}

// The patience of a watch begins when it breaks, not with the last message: nothing may have
// happened for long.
func TestWatchThatWasSilentGoesOn(t *testing.T) {
	fake := &fakeAllocations{}
	streams := 0
	fake.watch = func(
		ctx context.Context, _ *bursarv1.AllocationServiceWatchRequest, stream *connect.ServerStream[bursarv1.AllocationServiceWatchResponse],
	) error {
		if streams++; streams == 3 {
			return connect.NewError(connect.CodeOutOfRange, errors.New("enough"))
		}
		if err := stream.Send(&bursarv1.AllocationServiceWatchResponse{Revision: uint64(streams)}); err != nil {
			return err
		}
		select {
		case <-time.After(50 * time.Millisecond): // longer than the patience
		case <-ctx.Done():
		}
		return connect.NewError(connect.CodeUnavailable, errors.New("another leads"))
	}
	c := newClient(t, fake, client.WithRetries(client.RetryPolicy{
		First: time.Microsecond, Longest: time.Microsecond, Patience: 20 * time.Millisecond,
	}))
	var last error
	for _, err := range c.WatchAllocations(t.Context(), nil) {
		last = err
	}
	if connect.CodeOf(last) != connect.CodeOutOfRange {
		t.Errorf("ended with %v after %d streams: want OUT_OF_RANGE after three", last, streams)
	}
}

func TestWatchOfAServerThatStaysAwayEnds(t *testing.T) {
	fake := &fakeAllocations{watch: func(
		context.Context, *bursarv1.AllocationServiceWatchRequest, *connect.ServerStream[bursarv1.AllocationServiceWatchResponse],
	) error {
		return nil
	}}
	c := newClient(t, fake, client.WithRetries(client.RetryPolicy{Patience: 20 * time.Millisecond}))
	var last error
	for _, err := range c.WatchAllocations(t.Context(), nil) {
		last = err
	}
	if !client.Unavailable(last) {
		t.Errorf("ended with %v: want UNAVAILABLE", last)
	}
}

func TestWatchEndsWithItsContext(t *testing.T) {
	fake := &fakeAllocations{watch: func(
		ctx context.Context, _ *bursarv1.AllocationServiceWatchRequest, stream *connect.ServerStream[bursarv1.AllocationServiceWatchResponse],
	) error {
		if err := stream.Send(&bursarv1.AllocationServiceWatchResponse{Revision: 1}); err != nil {
			return err
		}
		<-ctx.Done()
		return ctx.Err()
	}}
	c := newClient(t, fake)
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	for _, err := range c.WatchAllocations(ctx, nil) {
		if err != nil {
			t.Errorf("%v: want no error", err)
		}
		cancel()
	}
}

// A new leader may lack the changes after the last revision: the watch continues, and reports a
// gap.
func TestWatchGoesOnBehindAGap(t *testing.T) {
	fake := &fakeAllocations{}
	fake.watch = func(
		_ context.Context, req *bursarv1.AllocationServiceWatchRequest, stream *connect.ServerStream[bursarv1.AllocationServiceWatchResponse],
	) error {
		switch req.GetAfterRevision() {
		case 5:
			_ = stream.Send(&bursarv1.AllocationServiceWatchResponse{Revision: 9})
			return connect.NewError(connect.CodeUnavailable, errors.New("another leads"))
		case 0:
			_ = stream.Send(&bursarv1.AllocationServiceWatchResponse{Revision: 12})
			return connect.NewError(connect.CodeInvalidArgument, errors.New("enough"))
		}
		return connect.NewError(connect.CodeOutOfRange, errors.New("want at least 10"))
	}
	var gaps []uint64
	c := newClient(t, fake, client.WithGaps(func(after, upTo uint64) { gaps = append(gaps, after, upTo) }))
	for _, first := range []uint64{3, 5} {
		var last error
		for _, err := range c.WatchAllocations(t.Context(), &bursarv1.AllocationServiceWatchRequest{AfterRevision: first}) {
			last = err
		}
		want := map[uint64]connect.Code{3: connect.CodeOutOfRange, 5: connect.CodeInvalidArgument}[first]
		if connect.CodeOf(last) != want {
			t.Errorf("after %d: ended with %v: want %v", first, last, want)
		}
	}
	if diff := cmp.Diff([]uint64{9, 12}, gaps); diff != "" {
		t.Error(diff)
	}
}
