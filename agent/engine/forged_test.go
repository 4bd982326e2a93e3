package engine

import (
	"slices"
	"strings"
	"testing"
)

func TestLastLinesOfAForgedRecordFit(t *testing.T) {
	long := strings.Repeat("x", maxErrorOutput)
	for _, said := range [][]string{nil, {""}, {"", ""}, {"x", ""}, {long}, {long + long}, {"x", long}, {long, "x"}, slices.Repeat([]string{"é"}, maxErrorOutput)} {
		got := lastLines(said)
		if len(got) > maxErrorOutput || len(said) > 0 && !strings.HasPrefix(got, said[len(said)-1][:min(1, len(said[len(said)-1]))]) {
			t.Errorf("%d lines: %d bytes: %q", len(said), len(got), got)
		}
	}
}
