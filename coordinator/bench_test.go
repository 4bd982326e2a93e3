package coordinator

import (
	"context"
	"fmt"
	"net"
	"net/http"
	"path/filepath"
	"slices"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"connectrpc.com/connect"
	"connectrpc.com/validate"

	bursarv1 "github.com/bursar/bursar/proto/bursar/v1"
	"github.com/bursar/bursar/proto/bursar/v1/bursarv1connect"
)

// echoService answers an Allocate of the same size with the same validation and nothing behind it:
// the ceiling.
type echoService struct {
	bursarv1connect.UnimplementedAllocationServiceHandler

	answer atomic.Pointer[bursarv1.AllocateResponse]
}

func (s *echoService) Allocate(context.Context, *bursarv1.AllocateRequest) (*bursarv1.AllocateResponse, error) {
	return s.answer.Load(), nil
}

func startEcho(b *testing.B, answer *bursarv1.AllocateResponse) string {
	b.Helper()
	service := &echoService{}
	service.answer.Store(answer)
	mux := http.NewServeMux()
	mux.Handle(bursarv1connect.NewAllocationServiceHandler(service, connect.WithInterceptors(validate.NewInterceptor()), connect.WithCompressMinBytes(compressFrom)))
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		b.Fatal(err)
	}
	server := &http.Server{Handler: mux, ReadHeaderTimeout: time.Minute}
	done := make(chan struct{})
	go func() {
		defer close(done)
		_ = server.Serve(listener)
	}()
	b.Cleanup(func() {
		_ = server.Close()
		<-done
	})
	return "http://" + listener.Addr().String()
}

func benchRequest(i int) *bursarv1.AllocateRequest {
	return &bursarv1.AllocateRequest{
		RequestId: fmt.Sprintf("request-%016d", i),
		Labels:    map[string]string{"user": "alice", "creator": "IDE", "engineType": "spark-3.3"},
		Resource:  &bursarv1.Resource{MemoryBytes: quantity(1 << 20), CpuMillis: quantity(10)},
	}
}

// load calls from so many clients, each with one call at a time, and reports rate and latency.
func load(b *testing.B, url string, clients int, call func(client bursarv1connect.AllocationServiceClient, i int) error) {
	b.Helper()
	transport := &http.Transport{MaxIdleConnsPerHost: clients}
	defer transport.CloseIdleConnections()
	client := bursarv1connect.NewAllocationServiceClient(&http.Client{Transport: transport}, url)
	var next atomic.Int64
	latencies := make([][]time.Duration, clients)
	var group sync.WaitGroup
	before := cpuTime(b)
	b.ResetTimer()
	for c := range clients {
		group.Go(func() {
			for {
				i := int(next.Add(1))
				if i > b.N {
					return
				}
				start := time.Now()
				if err := call(client, i); err != nil {
					b.Error(err)
					return
				}
				latencies[c] = append(latencies[c], time.Since(start))
			}
		})
	}
	group.Wait()
	b.StopTimer()
	b.ReportMetric(float64((cpuTime(b)-before).Microseconds())/float64(b.N), "cpu-µs/call")
	all := slices.Concat(latencies...)
	slices.Sort(all)
	if len(all) > 0 {
		b.ReportMetric(float64(b.N)/b.Elapsed().Seconds(), "calls/s")
		b.ReportMetric(float64(all[len(all)/2].Microseconds()), "p50-µs")
		b.ReportMetric(float64(all[len(all)*99/100].Microseconds()), "p99-µs")
	}
}

// cpuTime is what the process has used of all cores: it tells the cost of a call even if others
// use the machine too.
func cpuTime(b *testing.B) time.Duration {
	b.Helper()
	var usage syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &usage); err != nil {
		b.Fatal(err)
	}
	return time.Duration(usage.Utime.Nano() + usage.Stime.Nano())
}

func allocateOnly(client bursarv1connect.AllocationServiceClient, i int) error {
	_, err := client.Allocate(context.Background(), benchRequest(i))
	return err
}

// BenchmarkAllocate is the main call over HTTP, durable in SQLite and in memory, next to an echo.
func BenchmarkAllocate(b *testing.B) {
	for _, clients := range []int{1, 64} {
		var answer *bursarv1.AllocateResponse
		for _, kind := range []string{"memory", "sqlite"} {
			b.Run(fmt.Sprintf("%s/%d", kind, clients), func(b *testing.B) {
				kept := newMemoryStore()
				if kind == "sqlite" {
					kept = openSQLite(b, filepath.Join(b.TempDir(), "ledger.db"))
				}
				f := start(b, Config{}, kept)
				f.host("host-1", 1<<50)
				answer = &bursarv1.AllocateResponse{Allocation: f.allocate(benchRequest(0))}
				load(b, f.url, clients, allocateOnly)
			})
		}
		b.Run(fmt.Sprintf("echo/%d", clients), func(b *testing.B) {
			load(b, startEcho(b, answer), clients, allocateOnly)
		})
	}
}
