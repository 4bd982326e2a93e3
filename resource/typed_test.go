package resource

import (
	"strings"
	"testing"
)

func TestParseTyped(t *testing.T) {
	for _, c := range []struct {
		dimension, text string
		want            int64
		wrong           string
	}{
		{Memory, "4GiB", 4 << 30, ""},
		{Memory, "4096B", 4096, ""},
		{Memory, "4194304", 4 << 20, ""},
		{Memory, "0", 0, ""},
		{Memory, "4096", 0, "such as 4096MiB or 4096GiB"},
		{AMMemory, "1GiB", 1 << 30, ""},
		{AMMemory, "4608", 0, "such as 4608MiB or 4608GiB: without one it is bytes"},
		{AMMemory, "4608B", 0, "1MiB or more"},
		{AMMemory, "1KiB", 0, "1MiB or more"},
		{AMMemory, "0", 0, ""},
		{CPU, "0.0001", 0, "at least 1m"},
		{AMCPU, "0.5m", 0, "at least 1m"},
		{AMCPU, "1", 1000, ""},
		{"gpu", "2", 2, ""},
	} {
		n, err := ParseTyped(c.dimension, c.text)
		if c.wrong == "" && (err != nil || n != c.want) || c.wrong != "" && (err == nil || !strings.Contains(err.Error(), c.wrong)) {
			t.Errorf("%s=%s is %d, %v; want %d, %q", c.dimension, c.text, n, err, c.want, c.wrong)
		}
	}
}
