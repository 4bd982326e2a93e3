package resource

import "testing"

func BenchmarkParseMemory(b *testing.B) {
	b.ReportAllocs()
	for b.Loop() {
		if _, err := ParseMemory("1.5GiB"); err != nil {
			b.Fatal(err)
		}
	}
}
