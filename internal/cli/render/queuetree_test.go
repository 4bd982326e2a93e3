package render

import (
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	bursarv1 "github.com/bursar/bursar/proto/bursar/v1"
	"github.com/bursar/bursar/resource"
)

// queueAt is a queue of the cluster yarn:prod, with the queue above it by its path.
func queueAt(path, partition string) *bursarv1.Queue {
	parent := ""
	if i := strings.LastIndexByte(path, '.'); i >= 0 {
		parent = path[:i]
	}
	return &bursarv1.Queue{Kind: "yarn", Cluster: "prod", Path: path, Parent: parent, Partition: partition}
}

func namesOf(tree []*branch) []string {
	var names []string
	for _, b := range tree {
		name := b.name()
		if b.GetPartition() != "" {
			name += "@" + b.GetPartition()
		}
		names = append(names, name)
	}
	return names
}

func TestTreeHasQueuesBelowTheOneAbove(t *testing.T) {
	other := queueAt("root", "")
	other.Cluster = "dev"
	queues := []*bursarv1.Queue{
		queueAt("root.a-b", ""), queueAt("root.a.a1", ""), queueAt("root", ""), queueAt("root.a", "gpu"), queueAt("root.a", ""),
		queueAt("root.a.a1", "gpu"), other,
	}
	want := []string{
		"yarn:dev:root",
		"yarn:prod:root", "  a", "  a@gpu", "    a1", "    a1@gpu", "  a-b",
	}
	if diff := cmp.Diff(want, namesOf(treeOf(queues))); diff != "" {
		t.Error(diff)
	}
	slices.Reverse(queues)
	if diff := cmp.Diff(want, namesOf(treeOf(queues))); diff != "" {
		t.Errorf("in another order: %s", diff)
	}
}

func TestTreeOfAPartBeginsWithAWholeAddress(t *testing.T) {
	got := namesOf(treeOf([]*bursarv1.Queue{queueAt("root.a.a1.x", ""), queueAt("root.a.a1", ""), queueAt("root.b", "")}))
	if diff := cmp.Diff([]string{"yarn:prod:root.a.a1", "  x", "yarn:prod:root.b"}, got); diff != "" {
		t.Error(diff)
	}
}

func TestNoteIsSaidOnceForWhatIsBelow(t *testing.T) {
	root, a, b := queueAt("root", ""), queueAt("root.a", ""), queueAt("root.b", "")
	root.Unavailable, a.Unavailable, b.Unavailable = "last read 41s ago", "last read 41s ago", "STOPPED"
	b.Account = &bursarv1.Account{OverLimit: true}
	var notes []string
	for _, branch := range treeOf([]*bursarv1.Queue{root, a, b}) {
		notes = append(notes, branch.note())
	}
	if diff := cmp.Diff([]string{"last read 41s ago", "", "STOPPED, over its limit"}, notes); diff != "" {
		t.Error(diff)
	}
}

// The command line accepts each name that the tree shows.
func TestEveryNameInATreeIsAccepted(t *testing.T) {
	odd := []rune("a\\,@:=*\"'`$ !#&|;<>()[]{}?~%/-_ö名\u3164\u202e\u200b\u00a0\u0301\U000e0041") //nolint:gosmopolitan // users have such names
	name := rapid.OneOf(rapid.StringOfN(rapid.RuneFrom(odd), 1, 8, -1), rapid.SampledFrom([]string{`CORP\alice`, "-rf", "a,b", "x ", " x", `"x"`, "*", "none"}))
	rapid.Check(t, func(t *rapid.T) {
		at := resource.Address{Cluster: name.Draw(t, "cluster"), Path: strings.Join(append([]string{"root"}, rapid.SliceOfN(name, 0, 3).Draw(t, "names")...), ".")}
		above, _, _ := strings.Cut(at.Path, ".")
		tree := treeOf([]*bursarv1.Queue{{Kind: "yarn", Cluster: at.Cluster, Path: above}, {Kind: "yarn", Cluster: at.Cluster, Path: at.Path, Parent: above}})
		if leaf, below := strings.CutPrefix(at.Path, above+"."); below {
			shown := strings.TrimPrefix(tree[1].name(), "  ")
			if back, err := resource.ParseQueue("yarn:c:" + shown); err != nil || back.Path != leaf || back.Partition != "" {
				t.Fatalf("%q is shown as %s and read as %q, %v", leaf, shown, back, err)
			}
		}
		whole := tree[0].name()
		if back, err := resource.ParseQueue(whole); err != nil || back.Path != above || back.Cluster != at.Cluster {
			t.Fatalf("%q is shown as %s and read as %q, %v", above, whole, back, err)
		}
	})
}
