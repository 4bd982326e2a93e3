package soak

import (
	"encoding/json"
	"slices"
	"strings"
	"testing"
)

// usage is what servers take at a time, by name: memory and files in bytes, numbers of
// descriptors, threads and goroutines.
type usage map[string]int64

func (u usage) String() string {
	text, _ := json.Marshal(u) // of numbers
	return string(text)
}

// compare fails the test if servers used more in the last fifth of a series than in the second. In
// the first fifth engines are started, and caches and pools fill.
func compare(t *testing.T, series []usage) {
	t.Helper()
	fifth := len(series) / 5
	early, late := median(series[fifth:2*fifth]), median(series[len(series)-fifth:])
	t.Logf("second fifth: %s", early)
	t.Logf("last fifth:   %s", late)
	for name, was := range early {
		is, allowed := late[name], was+was/10
		switch {
		case strings.HasSuffix(name, "memory"), strings.HasSuffix(name, "bytes on disk"):
			allowed += 4 * mib // what the collector, or the removal of old rows, may be late by
		case strings.HasSuffix(name, "files"):
			allowed += 2
		default:
			allowed += 20
		}
		if is > allowed {
			t.Errorf("%s: has grown from %d to %d", name, was, is)
		}
	}
}

// median is that of each figure.
func median(series []usage) usage {
	middle := usage{}
	for name := range series[0] {
		var values []int64
		for _, u := range series {
			values = append(values, u[name])
		}
		slices.Sort(values)
		middle[name] = values[len(values)/2]
	}
	return middle
}
