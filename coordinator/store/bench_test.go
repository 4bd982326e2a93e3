package store

import (
	"testing"
	"time"

	"github.com/bursar/bursar/coordinator/ledger"
	"github.com/bursar/bursar/label"
	"github.com/bursar/bursar/resource"
)

func typical() ledger.Allocation {
	now := ledger.At(time.Date(2026, 11, 20, 12, 0, 0, 123, time.UTC))
	r := resource.Resource{Vector: resource.Vector{}.WithMemory(4 << 30).WithCPU(2000).WithInstances(1)}
	return ledger.Allocation{
		ID: ledger.ID(uint64(now)/1e6) << 22, RequestID: "6f1c3b1e-2d0a-4c53-9a55-0f8a4f4f7a11", Caller: "alice@host-0123", RequestHash: 0x1234567890abcdef,
		State: ledger.Active, Labels: label.Of("creator", "IDE", "engineType", "spark-3.3", "user", "alice"), Requested: r, Entitled: r,
		HostID: "host-0123.example.org", HostAddress: "10.1.2.3:9102", Created: now, Reserved: now, Confirmed: now,
		ReservationTTL: 2 * time.Minute, WaitDeadline: now, Reason: "confirmed",
		Process:  ledger.Process{PID: 12345, StartTime: 987654321, Cgroup: "/bursar.slice/engine-1.scope", BootID: "0c9a4f0e-8a5f-4a0f-9d06-0a4d3c8b7e21"},
		Revision: 123456, GrantRevision: 123400,
	}
}

func BenchmarkEncodeAllocation(b *testing.B) {
	a := typical()
	var buf []byte
	b.ReportAllocs()
	for b.Loop() {
		var err error
		if buf, err = AppendAllocation(buf[:0], &a); err != nil {
			b.Fatal(err)
		}
	}
	b.ReportMetric(float64(len(buf)), "bytes/row")
}

func BenchmarkDecodeAllocation(b *testing.B) {
	a := typical()
	buf, err := AppendAllocation(nil, &a)
	if err != nil {
		b.Fatal(err)
	}
	b.ReportAllocs()
	for b.Loop() {
		if _, err := DecodeAllocation(a.ID, false, buf); err != nil {
			b.Fatal(err)
		}
	}
}
