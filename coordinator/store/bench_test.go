package store_test

import (
	"testing"

	"github.com/bursar/bursar/coordinator/ledger"
	"github.com/bursar/bursar/coordinator/store"
	"github.com/bursar/bursar/coordinator/store/storetest"
)

func BenchmarkEncodeAllocation(b *testing.B) {
	a := storetest.Typical(ledger.ID(1795_000_000_000<<22), ledger.Active, 123456)
	var payload []byte
	b.ReportAllocs()
	for b.Loop() {
		var err error
		if payload, err = store.AppendAllocation(payload[:0], &a); err != nil {
			b.Fatal(err)
		}
	}
	b.ReportMetric(float64(len(payload)), "B/row")
}

func BenchmarkDecodeAllocation(b *testing.B) {
	a := storetest.Typical(ledger.ID(1795_000_000_000<<22), ledger.Active, 123456)
	payload, err := store.AppendAllocation(nil, &a)
	if err != nil {
		b.Fatal(err)
	}
	b.ReportAllocs()
	for b.Loop() {
		if _, err := store.DecodeAllocation(a.ID, false, payload); err != nil {
			b.Fatal(err)
		}
	}
}
