package main

import (
	"context"
	"fmt"
	"net"
	"net/http"
	"strings"
	"time"

	"connectrpc.com/connect"
	"connectrpc.com/validate"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/durationpb"

	bursarv1 "github.com/bursar/bursar/proto/bursar/v1"
	"github.com/bursar/bursar/proto/bursar/v1/bursarv1connect"
)

// echoChild is a process that serves an AllocationService with constant answers: it shows the cost
// of an answer without a decision. It has the generated handler, the validation, the limits and the
// protocols of a coordinator.
type echoChild struct {
	bursarv1connect.UnimplementedAllocationServiceHandler

	allocated *bursarv1.AllocateResponse
	released  *bursarv1.ReleaseResponse
}

// Allocate returns the constant answer.
func (c *echoChild) Allocate(context.Context, *bursarv1.AllocateRequest) (*bursarv1.AllocateResponse, error) {
	return c.allocated, nil
}

// Release returns the constant answer.
func (c *echoChild) Release(context.Context, *bursarv1.ReleaseRequest) (*bursarv1.ReleaseResponse, error) {
	return c.released, nil
}

// reportEcho answers reports. Like a coordinator, it does not validate them.
type reportEcho struct {
	bursarv1connect.UnimplementedHostServiceHandler

	interval time.Duration // in its answers
}

// Sync answers that there is nothing new.
func (e reportEcho) Sync(_ context.Context, req *bursarv1.SyncRequest) (*bursarv1.SyncResponse, error) {
	return &bursarv1.SyncResponse{
		Epoch: req.GetEpoch(), Leadership: req.GetLeadership(), LedgerSequence: req.GetLedgerSequence(), Interval: durationpb.New(e.interval),
	}, nil
}

func (c *echoChild) do(ctx context.Context, o order) (answer, error) {
	allocation := &bursarv1.Allocation{}
	if err := proto.Unmarshal(o.Reply, allocation); err != nil {
		return answer{}, fmt.Errorf("echo: %w", err)
	}
	c.allocated, c.released = &bursarv1.AllocateResponse{Allocation: allocation}, &bursarv1.ReleaseResponse{Allocation: allocation}
	network := "tcp"
	if strings.HasPrefix(o.Echo, "/") {
		network = "unix"
	}
	var config net.ListenConfig
	listener, err := config.Listen(ctx, network, o.Echo)
	if err != nil {
		return answer{}, fmt.Errorf("echo: %w", err)
	}
	mux := http.NewServeMux()
	mux.Handle(bursarv1connect.NewAllocationServiceHandler(c,
		connect.WithInterceptors(validate.NewInterceptor()), connect.WithReadMaxBytes(1<<20), connect.WithCompressMinBytes(4<<10)))
	mux.Handle(bursarv1connect.NewHostServiceHandler(reportEcho{interval: o.Every}, connect.WithReadMaxBytes(1<<20), connect.WithCompressMinBytes(4<<10)))
	protocols := new(http.Protocols)
	protocols.SetHTTP1(true)
	protocols.SetUnencryptedHTTP2(true)
	server := &http.Server{Handler: mux, Protocols: protocols, ReadHeaderTimeout: 10 * time.Second, IdleTimeout: 2 * time.Minute}
	go func() { _ = server.Serve(listener) }() // until this process ends
	return answer{Address: listener.Addr().String()}, nil
}
