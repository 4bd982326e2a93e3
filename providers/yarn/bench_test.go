package yarn

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"testing"
)

// answerOf makes an answer of a CapacityScheduler of Hadoop 3.4 with n queues, from a leaf and a
// parent in Hadoop's own tests: nine leaves below each parent, about 7 kB per queue.
func answerOf(tb testing.TB, n int) []byte {
	tb.Helper()
	body := payloads(tb, ".json")["cs-2022/scheduler-response-WeightModeWithAutoCreatedQueues-After.json"]
	var answer map[string]map[string]map[string]any
	if err := json.Unmarshal(body, &answer); err != nil {
		tb.Fatal(err)
	}
	info := answer["scheduler"]["schedulerInfo"]
	var leaf, parent map[string]any
	for _, q := range elements(info["queues"], "queue") {
		if q["queueName"] == "test1" {
			leaf = q
		}
		if q["queueName"] == "autoParent1" {
			parent = q
		}
	}
	encode := func(q map[string]any, name, path string, below []json.RawMessage) json.RawMessage {
		q["queueName"], q["queuePath"] = name, path
		if below != nil {
			q["queues"] = map[string]any{"queue": below}
		}
		text, err := json.Marshal(q)
		if err != nil {
			tb.Fatal(err)
		}
		return text
	}
	var parents []json.RawMessage
	for made := 0; made < n; {
		name := fmt.Sprintf("team-%d", len(parents))
		var leaves []json.RawMessage
		for made++; made < n && len(leaves) < 9; made++ {
			queue := fmt.Sprintf("queue-%d", len(leaves))
			leaves = append(leaves, encode(leaf, queue, "root."+name+"."+queue, nil))
		}
		parents = append(parents, encode(parent, name, "root."+name, leaves))
	}
	info["queues"] = map[string]any{"queue": parents}
	text, err := json.Marshal(answer)
	if err != nil {
		tb.Fatal(err)
	}
	return text
}

// BenchmarkDecode reads an answer like a poll does, including the snapshot. It also decodes the
// same bytes with encoding/json into its general types, which is the minimum for a reader that
// keeps everything in memory.
func BenchmarkDecode(b *testing.B) {
	for _, n := range []int{50, 500, 5000} {
		body := answerOf(b, n)
		run := func(name string, read func() int) {
			b.Run(fmt.Sprintf("queues=%d/%s", n, name), func(b *testing.B) {
				b.SetBytes(int64(len(body)))
				b.ReportAllocs()
				for b.Loop() {
					if got := read(); got != n+1 {
						b.Fatalf("%d queues", got)
					}
				}
				b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N)/float64(n), "ns/queue")
			})
		}
		run("stream", func() int {
			s, err := Decode(bytes.NewReader(body))
			if err != nil {
				b.Fatal(err)
			}
			return len(s.Queues(nil))
		})
		run("encoding-json", func() int {
			var v any
			if err := json.NewDecoder(bytes.NewReader(body)).Decode(&v); err != nil {
				b.Fatal(err)
			}
			return n + 1
		})
	}
}

// BenchmarkStream is the part before the JSON decoder, which looks at every byte.
func BenchmarkStream(b *testing.B) {
	body := answerOf(b, 500)
	b.SetBytes(int64(len(body)))
	for b.Loop() {
		if _, err := io.Copy(io.Discard, &stream{from: bytes.NewReader(body)}); err != nil {
			b.Fatal(err)
		}
	}
}
