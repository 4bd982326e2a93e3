package main

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"strconv"
	"time"

	"google.golang.org/protobuf/types/known/durationpb"

	"github.com/bursar/bursar/agent/sending"
	"github.com/bursar/bursar/client"
	"github.com/bursar/bursar/internal/identity"
	bursarv1 "github.com/bursar/bursar/proto/bursar/v1"
	"github.com/bursar/bursar/proto/bursar/v1/bursarv1connect"
)

// outputs makes callers read the output of engines as fast as they receive it, and as many readers
// receive nothing. This process acts as the host's agent, with endless output.
func (a *attackers) outputs(ctx context.Context) error {
	const host = 0
	agent, err := a.agentOf(hostName(host))
	if err != nil {
		return err
	}
	if err := a.sendOutput(ctx, agent, hostName(host)); err != nil {
		agent.Close()
		return err
	}
	a.cleanup = func() error {
		agent.Close()
		return nil
	}
	for n := range a.workload.Readers.Callers {
		caller := mallory + "-" + strconv.Itoa(n)
		engines, id, err := a.engine(ctx, caller, host, int32(n))
		if err != nil {
			return err
		}
		a.group.Go(func() {
			<-ctx.Done()
			engines.Close()
		})
		each := a.size(a.workload.Readers.Each)
		a.again(ctx, each, func(int) error { return a.read(ctx, engines, id) })
		for range each {
			a.group.Go(func() { a.readNothing(ctx, engines, id) })
		}
	}
	return nil
}

// agentOf returns a client that acts as the agent of a host.
func (a *attackers) agentOf(host string) (*client.Client, error) {
	return client.New(a.server, client.WithoutRetries(), client.WithActor(identity.Actor{Name: host, Host: host, Role: identity.Agent}))
}

// engine makes an engine of a caller, as if its agent had launched it.
func (a *attackers) engine(ctx context.Context, caller string, host int, n int32) (engines *client.Client, id string, err error) {
	engines, err = client.New(a.server, client.WithoutRetries(), client.WithActor(actorOf(caller)))
	if err != nil {
		return nil, "", err
	}
	request := a.request()
	request.Labels["user"] = caller
	request.Host = &bursarv1.HostWishes{Id: hostName(host)}
	request.ReservationTtl = durationpb.New(time.Hour)
	granted, err := engines.Allocations().Allocate(ctx, request)
	if err == nil {
		id = granted.GetAllocation().GetId()
		_, err = engines.Allocations().Confirm(ctx, &bursarv1.ConfirmRequest{Id: id, Process: &bursarv1.Process{Pid: 1000 + n, StartTime: uint64(os.Getpid())}}) //nolint:gosec // a pid is positive
	}
	if err != nil {
		engines.Close()
		return nil, "", fmt.Errorf("an engine of %s: %w", caller, err)
	}
	return engines, id, nil
}

// read reads output until the attack ends or the coordinator refuses to continue.
func (a *attackers) read(ctx context.Context, engines *client.Client, id string) error {
	stream, err := engines.Engines().Logs(ctx, endlessOutput(id))
	if err != nil {
		return err
	}
	for stream.Receive() {
		a.counted.calls.Add(1)
	}
	return errors.Join(stream.Err(), stream.Close())
}

// readNothing opens a stream of output and receives nothing.
func (a *attackers) readNothing(ctx context.Context, engines *client.Client, id string) {
	stream, err := engines.Engines().Logs(ctx, endlessOutput(id))
	if err != nil {
		return
	}
	<-ctx.Done()
	_ = stream.Close()
}

// sendOutput attaches the agent of a host, which sends endless output for each order.
func (a *attackers) sendOutput(ctx context.Context, agent *client.Client, host string) error {
	stream, err := agent.Hosts().Attach(ctx, &bursarv1.AttachRequest{HostId: host, Incarnation: 1})
	if err != nil {
		return fmt.Errorf("attach: %w", err)
	}
	if !stream.Receive() {
		return fmt.Errorf("attach: %w", errors.Join(stream.Err(), stream.Close()))
	}
	sender := sending.New(sending.Options{
		HostID: func() string { return host }, Incarnation: func() uint64 { return 1 }, Output: endless{}, Log: slog.New(slog.DiscardHandler),
		Coordinators: func() []string { return []string{"http://" + a.server} },
		Dial: func(string) (bursarv1connect.HostServiceClient, func(), error) {
			own, err := a.agentOf(host)
			if err != nil {
				return nil, nil, err
			}
			return own.Hosts(), own.Close, nil
		},
	})
	a.group.Go(func() {
		defer sender.Wait()
		for stream.Receive() {
			if order := stream.Msg().GetSendOutput(); order != nil {
				sender.Send(ctx, order)
			}
			if order := stream.Msg().GetStopSending(); order != nil {
				sender.Stop(order)
			}
		}
		_ = stream.Close()
	})
	return nil
}

func endlessOutput(id string) *bursarv1.LogsRequest {
	return &bursarv1.LogsRequest{Id: id, Stream: bursarv1.OutputStream_OUTPUT_STREAM_STDOUT, Start: &bursarv1.LogsRequest_Offset{}, Follow: true}
}

// endless is endless output.
type endless struct{}

// Send implements sending.Output.
func (endless) Send(ctx context.Context, _ string, from *bursarv1.LogsRequest, send func(*bursarv1.LogsResponse) error) error {
	piece := make([]byte, 64<<10)
	for next := from.GetOffset(); ctx.Err() == nil; {
		next += int64(len(piece))
		if err := send(&bursarv1.LogsResponse{NextOffset: next, Piece: &bursarv1.LogsResponse_Data{Data: piece}}); err != nil {
			return err
		}
	}
	return ctx.Err()
}
