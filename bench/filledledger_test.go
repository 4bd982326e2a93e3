package main

import "testing"

// BenchmarkPair repeats row 1 of the budgets for a profile: go test -run '^$' -bench Pair
// -cpuprofile cpu.out ./bench.
func BenchmarkPair(b *testing.B) {
	w, err := readWorkload("ledger")
	if err != nil {
		b.Fatal(err)
	}
	filled, err := newFilledLedger(w, w.Fleets[1])
	if err != nil {
		b.Fatal(err)
	}
	if err := filled.fill(w.Live); err != nil {
		b.Fatal(err)
	}
	if err := filled.pairs(w.Remembered); err != nil {
		b.Fatal(err)
	}
	b.ReportAllocs()
	before, err := cpuTime()
	if err != nil {
		b.Fatal(err)
	}
	b.ResetTimer()
	if err := filled.pairs(b.N); err != nil {
		b.Fatal(err)
	}
	after, err := cpuTime()
	if err != nil {
		b.Fatal(err)
	}
	b.ReportMetric(float64((after-before).Nanoseconds())/float64(b.N), "cpu-ns/op")
}
