package yarn_test

import (
	"bytes"
	"slices"
	"strings"
	"testing"

	"github.com/bursar/bursar/providers"
	provider "github.com/bursar/bursar/providers/yarn"
	"github.com/bursar/bursar/test/yarn"
)

// oddNames are names that users of a cluster may choose for a queue that is created on first use.
// No two differ only in blanks at their ends, and none begins with a blank: such names make these
// ResourceManagers crash.
var oddNames = []string{
	"a", "b1 ", "b2\u3000", "b3\u00a0", "\u200bb4", "c\u202ed", "e@x", "f,b", "g:b", "yarn:prod:root", "h=b", "*", "i*", `"q"`, `j\b`, "A", "e\u0301", "\u00e9",
	"名前", "%2F", "k.b", "-", strings.Repeat("x", 300), strings.Repeat("y", 3000), strings.Repeat("z", 40_000), //nolint:gosmopolitan // one is in Han script
}

// TestOddNamesOfQueues: users create queues on first use, with any names. For all names that a
// ResourceManager accepts, the other queues stay known, and each queue is listed.
func TestOddNamesOfQueues(t *testing.T) {
	t.Parallel()
	for name, options := range map[string]yarn.Options{
		"capacity": {Capacity: map[string]string{
			"root.queues": "plain,made", "root.plain.capacity": "1w", "root.made.capacity": "1w", "root.made.auto-queue-creation-v2.enabled": "true",
		}},
		"fair": {Version: yarn.Hadoop33, Fair: `<allocations><queueMaxAMShareDefault>-1.0</queueMaxAMShareDefault><queue name="plain"/><queue name="made"><queue name="first"/></queue></allocations>`},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			c := yarn.Start(t, options)
			taken := 0
			for _, odd := range oddNames {
				id, err := c.TrySubmit(t, yarn.Application{Queue: "root.made." + odd, MemoryMiB: 128, VCores: 1})
				if err != nil || c.Status(t, id).State == "FAILED" {
					t.Logf("refused is %.40q", odd)
					continue
				}
				taken++
			}
			answer := c.Get(t, "scheduler")
			s, err := provider.Decode(bytes.NewReader(answer))
			if err != nil {
				t.Fatalf("the whole cluster is unknown: %v", err)
			}
			snapshot, err := providers.Clean(open(t, c, nil)).Snapshot(t.Context())
			if err != nil {
				t.Fatalf("the whole cluster is unknown: %v", err)
			}
			var paths []string
			for _, q := range snapshot.Queues {
				paths = append(paths, q.Path)
				if q.Path == "root.plain" && (q.Closed || q.Limit.Memory() == 0) {
					t.Errorf("the plain queue is %+v", q)
				}
			}
			if !slices.Contains(paths, "root.plain") || !slices.Contains(paths, "root.made.a") {
				t.Errorf("known are %q", paths)
			}
			listed := len(snapshot.Queues) + len(snapshot.Unaddressable) + snapshot.MoreUnaddressable
			if all := bytes.Count(answer, []byte(`"queueName"`)); listed != all && name == "fair" || listed < taken || listed < len(s.Entries) {
				t.Errorf("%d of %d queues are listed, of which users made %d: %q, %+v", listed, all, taken, paths, snapshot.Unaddressable)
			}
			t.Logf("%d of %d names were taken: %q, and %+v", taken, len(oddNames), paths, snapshot.Unaddressable)
			if taken < 5 {
				t.Errorf("only %d names were taken: want more, so that something is tested", taken)
			}
		})
	}
}
