package providers

import (
	"context"
	"fmt"
	"strconv"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"github.com/bursar/bursar/resource"
)

// hostile puts its text into every field.
type hostile struct {
	Provider
	text string
}

func (h hostile) Snapshot(context.Context) (Snapshot, error) {
	q := func(path string) Queue {
		return Queue{Path: path, Parent: "root", Partition: "", State: h.text, DefaultPartition: h.text, Users: []User{{Name: h.text}, {Name: "alice"}}}
	}
	other := q("root.b")
	other.Partition = h.text
	return Snapshot{Server: h.text, Incarnation: h.text, Untrusted: h.text, Queues: []Queue{q("root.a"), q("root." + h.text), other}}, nil
}

func (h hostile) Applications(context.Context, []string) ([]Application, error) {
	held := map[string]resource.Vector{"": {}, h.text: {}}
	return []Application{
		{ID: "plain", Queue: "root.a", User: "alice", Failure: h.text, Diagnostics: h.text, Allocated: held},
		{ID: "queue", Queue: h.text},
		{ID: "user", Queue: "root.a", User: "ali" + h.text},
		{ID: h.text},
	}, nil
}

func (h hostile) Servers(context.Context) []Server {
	return []Server{{Address: h.text, Role: h.text, Version: h.text}}
}

func TestNothingThatATerminalActsOnComesFromAProvider(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		bad := rapid.SampledFrom([]string{"\x1b[2J", "\u202e", "\u2066", "\u009b31m", "\r", "\n", "\x00", "\u200f", "\ufeff", "\u2028"}).Draw(t, "bad")
		text := rapid.StringN(0, 20, 80).Draw(t, "before") + bad + strings.Repeat("long ", rapid.IntRange(0, 1000).Draw(t, "long"))
		p := Clean(hostile{text: text})
		s, err := p.Snapshot(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		if s.Incarnation != text {
			t.Fatalf("the incarnation, which is compared and never shown, is %q", s.Incarnation)
		}
		s.Incarnation = ""
		if len(s.Queues) != 1 || s.Queues[0].Path != "root.a" || len(s.Queues[0].Users) != 1 || s.Queues[0].Users[0].Name != "alice" {
			t.Fatalf("%q: kept are %+v", text, s.Queues)
		}
		apps, err := p.Applications(t.Context(), nil)
		if err != nil || len(apps) != 1 || apps[0].ID != "plain" || apps[0].Queue != "root.a" || apps[0].User != "alice" || len(apps[0].Allocated) != 1 {
			t.Fatalf("%q: kept are %+v, %v", text, apps, err)
		}
		all := fmt.Sprintf("%v %v %v %s", s, apps, p.Servers(t.Context()), Said(text))
		if strings.ContainsFunc(all, func(r rune) bool { return !strconv.IsPrint(r) }) || len(all) > 7000 {
			t.Fatalf("%q: %d bytes: %q", text, len(all), all)
		}
	})
}
