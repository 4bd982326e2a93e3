package client_test

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"time"

	"connectrpc.com/connect"
	"google.golang.org/protobuf/types/known/durationpb"

	"github.com/bursar/bursar/client"
	bursarv1 "github.com/bursar/bursar/proto/bursar/v1"
)

// The examples talk to a server in their own process; a real one listens on
// /run/bursar/agent.sock.
func exampleAgent(fake *fakeAllocations) (socket string, stop func()) {
	dir, err := os.MkdirTemp("", "bursar")
	if err != nil {
		panic(err)
	}
	socket, end, err := serve(dir, fake)
	if err != nil {
		panic(err)
	}
	return socket, func() {
		end()
		_ = os.RemoveAll(dir)
	}
}

func size(memoryBytes, cpuMillis int64) *bursarv1.Resource {
	return &bursarv1.Resource{MemoryBytes: &memoryBytes, CpuMillis: &cpuMillis}
}

// A launcher asks its agent, starts the engine itself, confirms it, and releases everything.
func Example() {
	socket, stop := exampleAgent(&fakeAllocations{})
	defer stop()
	ctx := context.Background()

	agent, err := client.New(socket)
	if err != nil {
		fmt.Println(err)
		return
	}
	defer agent.Close()

	res, err := agent.Allocations().Allocate(ctx, &bursarv1.AllocateRequest{
		Labels:   map[string]string{"user": "alice", "creator": "IDE", "engineType": "spark-3.3"},
		Resource: size(4<<30, 2000),
		Wait:     durationpb.New(30 * time.Second),
	})
	if err != nil {
		fmt.Println(err)
		return
	}
	id := res.GetAllocation().GetId()

	engine := exec.CommandContext(ctx, "true")
	if err := engine.Start(); err != nil {
		fmt.Println(err)
		return
	}
	confirmed, err := agent.Allocations().Confirm(ctx, &bursarv1.ConfirmRequest{
		Id: id, Process: &bursarv1.Process{Pid: int32(engine.Process.Pid)},
	})
	if err != nil {
		_ = engine.Process.Kill() // an engine that is not confirmed must not run
		fmt.Println(err)
		return
	}
	fmt.Println(id, confirmed.GetAllocation().GetState())

	_ = engine.Wait()
	if _, err := agent.Allocations().Release(ctx, &bursarv1.ReleaseRequest{Id: id, ExitStatus: client.ExitStatus(engine.ProcessState)}); err != nil {
		fmt.Println(err)
	}
	// Output:
	// a1 ALLOCATION_STATE_ACTIVE
}

// Calls go to the leader of several coordinators, and to another one if it does not answer. The
// finder for coordinators in Consul's catalog is in client/consul.
func ExampleNewCluster() {
	finder, err := client.Static([]string{"https://bursar-1.example.com:7070", "https://bursar-2.example.com:7070"})
	if err != nil {
		fmt.Println(err)
		return
	}
	coordinators := client.NewCluster(finder,
		client.WithTLS(&tls.Config{MinVersion: tls.VersionTLS12}),
		client.WithToken(func() (string, error) { return os.Getenv("BURSAR_TOKEN"), nil }),
	)
	defer coordinators.Close()

	fmt.Println(coordinators.Target())
	// Output:
	// https://bursar-1.example.com:7070, https://bursar-2.example.com:7070
}

// Run does all of it for one process.
func ExampleClient_Run() {
	socket, stop := exampleAgent(&fakeAllocations{})
	defer stop()

	agent, err := client.New(socket)
	if err != nil {
		fmt.Println(err)
		return
	}
	defer agent.Close()

	command := exec.Command("sh", "-c", "echo may use $BURSAR_MEMORY_BYTES bytes")
	command.Stdout = os.Stdout
	result, err := agent.Run(context.Background(), client.RunOptions{
		Request: &bursarv1.AllocateRequest{Labels: map[string]string{"user": "alice"}, Resource: size(256<<20, 500)},
		Command: command,
	})
	if err != nil {
		fmt.Println(err)
		return
	}
	fmt.Println(result.State, result.Allocation.GetState())
	// Output:
	// may use 268435456 bytes
	// exit status 0 ALLOCATION_STATE_RELEASED
}

// A refusal names every account that is short.
func ExampleInsufficient() {
	socket, stop := exampleAgent(&fakeAllocations{
		allocate: func(context.Context, *bursarv1.AllocateRequest) (*bursarv1.AllocateResponse, error) {
			refusal := connect.NewError(connect.CodeResourceExhausted, errors.New("insufficient resources"))
			detail, err := connect.NewErrorDetail(&bursarv1.InsufficientResources{Shortfalls: []*bursarv1.Shortfall{{
				Account:   &bursarv1.AccountName{Kind: bursarv1.AccountKind_ACCOUNT_KIND_QUOTA, Labels: map[string]string{"user": "alice"}},
				Dimension: "memory", Requested: 4 << 30, Available: 1 << 30, Limit: 8 << 30,
			}}})
			if err == nil {
				refusal.AddDetail(detail)
			}
			return nil, refusal
		},
	})
	defer stop()

	agent, err := client.New(socket)
	if err != nil {
		fmt.Println(err)
		return
	}
	defer agent.Close()

	_, err = agent.Allocations().Allocate(context.Background(), &bursarv1.AllocateRequest{
		Labels: map[string]string{"user": "alice"}, Resource: size(4<<30, 2000),
	})
	if insufficient, ok := client.Insufficient(err); ok {
		for _, s := range insufficient.GetShortfalls() {
			fmt.Printf("%v lacks %d MiB of %s\n", s.GetAccount().GetLabels(), (s.GetRequested()-s.GetAvailable())>>20, s.GetDimension())
		}
	}
	// Output:
	// map[user:alice] lacks 3072 MiB of memory
}

// A program that shows allocations lists them once and then watches.
func ExampleClient_WatchAllocations() {
	socket, stop := exampleAgent(&fakeAllocations{
		list: func(*bursarv1.AllocationServiceListRequest) (*bursarv1.AllocationServiceListResponse, error) {
			return &bursarv1.AllocationServiceListResponse{Allocations: []*bursarv1.Allocation{{Id: "a1"}}, Revision: 7}, nil
		},
		watch: func(
			_ context.Context, req *bursarv1.AllocationServiceWatchRequest, stream *connect.ServerStream[bursarv1.AllocationServiceWatchResponse],
		) error {
			return stream.Send(&bursarv1.AllocationServiceWatchResponse{
				Allocation: &bursarv1.Allocation{Id: "a1", State: bursarv1.AllocationState_ALLOCATION_STATE_RELEASED},
				Revision:   req.GetAfterRevision() + 1,
			})
		},
	})
	defer stop()
	ctx := context.Background()

	agent, err := client.New(socket)
	if err != nil {
		fmt.Println(err)
		return
	}
	defer agent.Close()

	var revision uint64
	for page, err := range agent.ListAllocations(ctx, &bursarv1.AllocationServiceListRequest{}) {
		if err != nil {
			fmt.Println(err)
			return
		}
		if revision == 0 {
			revision = page.GetRevision() // of the first page, to miss nothing
		}
		for _, a := range page.GetAllocations() {
			fmt.Println("there is", a.GetId())
		}
	}
	for msg, err := range agent.WatchAllocations(ctx, &bursarv1.AllocationServiceWatchRequest{AfterRevision: revision}) {
		if err != nil {
			fmt.Println(err)
			return
		}
		fmt.Println(msg.GetRevision(), msg.GetAllocation().GetId(), msg.GetAllocation().GetState())
		break
	}
	// Output:
	// there is a1
	// 8 a1 ALLOCATION_STATE_RELEASED
}
