package coordinator

import (
	"fmt"
	"net/http"
	"sync"
	"sync/atomic"
	"testing"

	"google.golang.org/protobuf/types/known/timestamppb"

	bursarv1 "github.com/bursar/bursar/proto/bursar/v1"
	"github.com/bursar/bursar/proto/bursar/v1/bursarv1connect"
)

// BenchmarkSync is a heartbeat over HTTP of a host with 20 engines: with a new use of each, and
// with none. For a profile: go test -run '^$' -bench Sync -cpuprofile cpu.out ./coordinator.
func BenchmarkSync(b *testing.B) {
	const hosts, engines = 64, 20
	f := start(b, Config{}, nil)
	beats := make([]*bursarv1.SyncRequest, hosts)
	for i := range beats {
		id := fmt.Sprint("h", i)
		f.host(id, 1<<40)
		beats[i] = &bursarv1.SyncRequest{HostId: id, Incarnation: 1, Sequence: 1, Epoch: f.status().GetEpoch(), BootId: "boot"}
		for n := range engines {
			request := request("", 1<<30)
			request.Host = &bursarv1.HostWishes{Id: id}
			a := f.allocate(request)
			process := &bursarv1.Process{Pid: int32(n + 10), StartTime: 5, BootId: "boot"}
			if _, err := f.allocations.Confirm(b.Context(), &bursarv1.ConfirmRequest{Id: a.GetId(), Process: process}); err != nil {
				b.Fatal(err)
			}
			beats[i].Engines = append(beats[i].Engines, &bursarv1.EngineReport{AllocationId: a.GetId()})
		}
		beats[i].Sequence++
		answer, err := f.hosts.Sync(b.Context(), beats[i])
		if err != nil {
			b.Fatal(err)
		}
		beats[i].LedgerSequence = answer.GetLedgerSequence()
	}
	run := func(b *testing.B) {
		b.Helper()
		transport := &http.Transport{MaxIdleConnsPerHost: hosts}
		defer transport.CloseIdleConnections()
		client := bursarv1connect.NewHostServiceClient(&http.Client{Transport: transport}, f.url)
		var next atomic.Int64
		var group sync.WaitGroup
		before := cpuTime(b)
		b.ResetTimer()
		for _, beat := range beats {
			group.Go(func() {
				for i := next.Add(1); i <= int64(b.N); i = next.Add(1) {
					beat.Sequence++
					beat.Sample = &bursarv1.HostSample{
						SampleTime: timestamppb.Now(), MemoryTotalBytes: quantity(1 << 40), MemoryAvailableBytes: quantity(1<<39 + i), MemorySafetyBytes: quantity(0),
					}
					for _, e := range beat.GetEngines() {
						used := &bursarv1.Resource{MemoryBytes: quantity(1<<29 + i), CpuMillis: quantity(i % 1000)}
						e.Measured, e.MeasuredPeak, e.UnreclaimableBytes = used, used, 1<<29
					}
					answer, err := client.Sync(b.Context(), beat)
					if err != nil {
						b.Error(err)
						return
					}
					beat.LedgerSequence = answer.GetLedgerSequence()
				}
			})
		}
		group.Wait()
		b.StopTimer()
		b.ReportMetric(float64((cpuTime(b)-before).Microseconds())/float64(b.N), "cpu-µs/call")
	}
	b.Run("changed", run)
	for _, beat := range beats {
		beat.Engines = nil
	}
	b.Run("quiet", run)
}
