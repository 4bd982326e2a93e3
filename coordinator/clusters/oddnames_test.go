package clusters

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	"pgregory.net/rapid"

	"github.com/bursar/bursar/coordinator/ledger"
	"github.com/bursar/bursar/internal/identity"
	"github.com/bursar/bursar/label"
	"github.com/bursar/bursar/providers"
	"github.com/bursar/bursar/providers/exec"
	"github.com/bursar/bursar/providers/yarn"
	"github.com/bursar/bursar/resource"
)

// oddPieces are parts of names that users of clusters choose.
var oddPieces = []string{
	"plain", "team", "ok", "a", "A", "root", " ", "\t", "\u00a0", "\u3000", "\u2003", "\u200b", "\ufeff", "\u202e", "\u2066", "\x00", "\x1b[2J", "\n",
	".", "..", ",", "@", ":", "=", "*", "\"", "\\", "/", "%2F", "#", "'", "$HOME", "é", "e\u0301", "\u0430", "\u3164", "\ufe0f", "名前", "\xff", "\xc3\x28", //nolint:gosmopolitan // one is in Han script
	"\ufffd", "default", "yarn:prod:root", strings.Repeat("x", 600), strings.Repeat("y", 3000), strings.Repeat("z", 64<<10),
}

// oddName draws the name of a queue that is not one of the plain ones.
func oddName() *rapid.Generator[string] {
	return rapid.Custom(func(t *rapid.T) string {
		pieces := rapid.SliceOfN(rapid.SampledFrom(oddPieces), 0, 4).Draw(t, "pieces")
		if rapid.IntRange(0, 9).Draw(t, "any") == 0 {
			pieces = append(pieces, rapid.String().Draw(t, "text"))
		}
		return strings.Join(pieces, "")
	}).Filter(func(name string) bool { return name != "plain" && name != "team" })
}

// quotedJSON writes a name as JSON. Bytes that are not UTF-8 stay unchanged.
func quotedJSON(name string) string {
	var b strings.Builder
	b.WriteByte('"')
	for i := range len(name) {
		switch c := name[i]; {
		case c == '"' || c == '\\':
			b.WriteString(`\` + string(c))
		case c < ' ':
			fmt.Fprintf(&b, `\u%04x`, c)
		default:
			b.WriteByte(c)
		}
	}
	return b.String() + `"`
}

// oddAnswers has an answer of each kind of cluster with root.plain, root.team, root.team.ok, and
// queues with odd names below root and root.team.
var oddAnswers = map[string]func(below, team []string) (providers.Snapshot, error){
	"capacity": func(below, team []string) (providers.Snapshot, error) {
		queue := func(name, children string) string {
			return `{"queueName":` + quotedJSON(name) + `,"state":"RUNNING","absoluteCapacity":1,"absoluteMaxCapacity":50,"numApplications":0,` +
				`"resourcesUsed":{"memory":1,"vCores":1},"capacities":{"queueCapacitiesByPartition":[{"partitionName":"","effectiveMaxResource":{"memory":1024,"vCores":8}}]}` + children + `}`
		}
		list := func(first string, names []string) string {
			queues := []string{first}
			for _, name := range names {
				queues = append(queues, queue(name, ""))
			}
			return `,"queues":{"queue":[` + strings.Join(queues, ",") + `]}`
		}
		inTeam := list(queue("ok", ""), team)
		return decodedYARN(`{"scheduler":{"schedulerInfo":{"type":"capacityScheduler","queueName":"root","resourcesUsed":{"memory":9,"vCores":9},` +
			`"capacities":{"queueCapacitiesByPartition":[{"partitionName":"","effectiveMaxResource":{"memory":8192,"vCores":64}}]}` +
			list(queue("plain", "")+","+queue("team", inTeam), below) + `}}}`)
	},
	"fair": func(below, team []string) (providers.Snapshot, error) {
		queue := func(name, children string) string {
			return `{"queueName":` + quotedJSON(name) + `,"maxResources":{"memory":1024,"vCores":8},"usedResources":{"memory":1,"vCores":1}` + children + `}`
		}
		list := func(above, first string, names []string) string {
			queues := []string{first}
			for _, name := range names {
				queues = append(queues, queue(above+"."+name, ""))
			}
			return `,"childQueues":{"queue":[` + strings.Join(queues, ",") + `]}`
		}
		inTeam := list("root.team", queue("root.team.ok", ""), team)
		return decodedYARN(`{"scheduler":{"schedulerInfo":{"type":"fairScheduler","rootQueue":{"queueName":"root","clusterResources":{"memory":8192,"vCores":64},` +
			`"maxResources":{"memory":8192,"vCores":64},"usedResources":{"memory":9,"vCores":9}` + list("root", queue("root.plain", "")+","+queue("root.team", inTeam), below) + `}}}}`)
	},
	"exec": func(below, team []string) (providers.Snapshot, error) {
		queue := func(path string) string {
			return `{"path":` + quotedJSON(path) + `,"limit":{"memory":"1GiB","cpu":8},"used":{"memory":"1MiB","cpu":1}}`
		}
		queues := []string{`{"path":"root"}`, queue("root.plain"), queue("root.team"), queue("root.team.ok")}
		for _, name := range below {
			queues = append(queues, queue("root."+name))
		}
		for _, name := range team {
			queues = append(queues, queue("root.team."+name))
		}
		a, err := exec.Decode([]byte(`{"version":1,"queues":[` + strings.Join(queues, ",") + `]}`))
		if err != nil {
			return providers.Snapshot{}, err
		}
		return providers.Snapshot{Queues: a.Queues, Unaddressable: a.Unaddressable, MoreUnaddressable: a.MoreUnaddressable}, nil
	},
}

func decodedYARN(answer string) (providers.Snapshot, error) {
	s, err := yarn.Decode(strings.NewReader(answer))
	if err != nil {
		return providers.Snapshot{}, err
	}
	return providers.Snapshot{Queues: s.Queues(nil), Unaddressable: s.Unaddressable, MoreUnaddressable: s.MoreUnaddressable}, nil
}

// saying is a provider of one snapshot.
type saying struct {
	providers.Provider
	snapshot providers.Snapshot
}

func (p saying) Snapshot(context.Context) (providers.Snapshot, error) { return p.snapshot, nil }

// oddLedger returns a ledger that has received an answer.
func oddLedger(t *rapid.T, said providers.Snapshot) (*ledger.Ledger, ledger.ClusterReport) {
	l := fairLedger(t)
	s, err := providers.Clean(saying{snapshot: said}).Snapshot(context.Background())
	if err != nil {
		t.Fatal(err)
	}
	reports, err := QueueReports(s.Queues)
	if err != nil {
		t.Fatalf("the whole cluster is refused: %v", err)
	}
	report := ledger.ClusterReport{
		ClusterName: fairCluster, Asked: 1, GoodFor: time.Hour, Queues: reports,
		Unaddressable: UnaddressableQueues(&s),
	}
	if err := l.ReportCluster(1, report); err != nil {
		t.Fatalf("the whole cluster is refused: %v", err)
	}
	return l, report
}

func oddAddress(path string) resource.Address {
	return resource.Address{Kind: fairCluster.Kind, Cluster: fairCluster.Cluster, Path: path}
}

// No odd name of a queue hides another queue, with any decoder and in the ledger. Each queue has
// its own account, or is listed as unaddressable.
func testOddNames(t *rapid.T) {
	kind := rapid.SampledFrom([]string{"capacity", "exec", "fair"}).Draw(t, "kind")
	below, team := rapid.SliceOfN(oddName(), 0, 6).Draw(t, "below root"), rapid.SliceOfN(oddName().Filter(func(s string) bool { return s != "ok" }), 0, 3).Draw(t, "below root.team")
	said, err := oddAnswers[kind](below, team)
	if err != nil {
		t.Fatalf("the whole cluster is refused: %v", err)
	}
	l, report := oddLedger(t, said)
	known := map[string]bool{}
	for _, q := range report.Queues {
		known[q.Path] = true
	}
	for _, path := range []string{"root.plain", "root.team.ok"} {
		q, err := l.Queue(oddAddress(path))
		if err != nil || !q.Known || q.Unavailable != "" || q.Report.Limit.Memory() != 1<<30 {
			t.Fatalf("%s is hidden: %+v, %v", path, q, err)
		}
	}
	// A queue without its own account is listed as unaddressable: each queue is in one of the
	// lists.
	hidden := report.Unaddressable
	if hidden == nil {
		hidden = &ledger.UnaddressableQueues{}
	}
	if got, want := len(known)+len(hidden.Listed)+hidden.More, 4+len(below)+len(team); got != want {
		t.Fatalf("%d of %d queues are listed: %v, %v", got, want, known, hidden)
	}
	for path := range known {
		if path != "root" && path != "root.team" {
			l.Advance(1)
			res, err := l.Allocate(1, ledger.AllocateCommand{
				Actor: identity.Actor{Name: "c", Anyone: true}, Labels: label.Of("user", "u"),
				Resource: resource.NewResource(resource.Vector{}.WithMemory(1)).WithPart(oddAddress(path), resource.Vector{}.WithMemory(1<<20)),
			})
			if q, _ := l.Queue(oddAddress(path)); q.Unavailable != "" { // another one has it
				if err == nil {
					t.Fatalf("%q is not available (%s), and grants", path, q.Unavailable)
				}
				continue
			}
			if err != nil {
				t.Fatalf("%q is listed, and a request for it is refused: %v", path, err)
			}
			for other := range known {
				q, _ := l.Queue(oddAddress(other))
				if charged := q.Account.Reserved.Memory() > 0; charged != (other == path || strings.HasPrefix(path, other+".")) {
					t.Fatalf("a request for %q charges %q: %v", path, other, charged)
				}
			}
			if _, err := l.Release(1, ledger.ReleaseCommand{Actor: identity.Local(), ID: res.Allocation.ID}); err != nil {
				t.Fatal(err)
			}
		}
	}
	for _, u := range hidden.Listed {
		if u.Reason == "" || !strings.HasPrefix(u.Name, `"`) || len(u.Name) > 200 || !utf8.ValidString(u.Name+u.Parent) {
			t.Fatalf("listed is %+v", u)
		}
	}
	if violations := l.Audit(); len(violations) > 0 {
		t.Fatal(violations)
	}
}

func TestNoNameOfAQueueHidesAnother(t *testing.T) { rapid.Check(t, testOddNames) }

func FuzzNamesOfQueues(f *testing.F) { f.Fuzz(rapid.MakeFuzz(testOddNames)) }

// If two queues have the same name, a request could mean either. So nothing new goes to them, and
// all others are unaffected.
func TestOfTwoQueuesWithOnePathNoneIsUsed(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		kind := rapid.SampledFrom([]string{"capacity", "exec", "fair"}).Draw(t, "kind")
		said, err := oddAnswers[kind]([]string{"plain", "other"}, nil)
		if err != nil {
			t.Fatal(err)
		}
		l, report := oddLedger(t, said)
		if q, err := l.Queue(oddAddress("root.plain")); err != nil || !strings.Contains(q.Unavailable, "another queue has the same path") {
			t.Fatalf("%s: %+v, %v", kind, q, err)
		}
		if q, err := l.Queue(oddAddress("root.other")); err != nil || q.Unavailable != "" {
			t.Fatalf("%s: %+v, %v", kind, q, err)
		}
		if report.Unaddressable == nil || len(report.Unaddressable.Listed) != 1 || report.Unaddressable.Listed[0].Name != `"plain"` {
			t.Fatalf("%s: %+v", kind, report.Unaddressable)
		}
	})
}
