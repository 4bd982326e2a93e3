package access_test

import (
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/bursar/bursar/internal/access"
	"github.com/bursar/bursar/internal/identity"
	"github.com/bursar/bursar/label"
	"github.com/bursar/bursar/resource"
)

const bounded = `
identities:
  - name: vm-1
    role: agent
    host: vm-1
    tokenHash: ` + some + `
    capacity: {memory: 64GiB, cpu: 16, gpu: 2}
    labels: {zone: [a, b], rack: "*", pool: cpu}
  - {name: vm-2, role: agent, host: vm-2, labels: {}}
`

func TestAHostIsCutToTheBoundsOfItsIdentity(t *testing.T) {
	all, err := access.Parse("f.yaml", []byte(bounded))
	if err != nil {
		t.Fatal(err)
	}
	b := all.BoundsOf("vm-1")
	capacity, excess := b.CutCapacity(resource.Vector{}.WithMemory(1<<50).WithCPU(8000).With("gpu", 1000).With("fpga", 1))
	if want := (resource.Vector{}.WithMemory(64<<30).WithCPU(8000).With("gpu", 2)); !capacity.EqualTo(want) {
		t.Errorf("capacity %s, want %s", capacity, want)
	}
	if diff := cmp.Diff([]string{"memory: 1PiB, cut to 64GiB", "fpga: 1, removed", "gpu: 1000, cut to 2"}, excess); diff != "" {
		t.Error(diff)
	}
	labels, excess := b.CutLabels(label.Of("zone", "b", "rack", "r9", "pool", "gpu", "tier", "gold"))
	if !labels.Equal(label.Of("zone", "b", "rack", "r9")) {
		t.Errorf("labels %s", labels)
	}
	if diff := cmp.Diff([]string{"label pool=gpu, removed", "label tier=gold, removed"}, excess); diff != "" {
		t.Error(diff)
	}
	// a host that names no dimension has no limit in it
	if capacity, excess = b.CutCapacity(resource.Vector{}.WithCPU(1)); capacity.Memory() != 64<<30 || len(excess) != 1 {
		t.Errorf("without memory: %s, %q", capacity, excess)
	}
	within := resource.Vector{}.WithMemory(1).WithCPU(16000).With("gpu", 2)
	if capacity, excess = b.CutCapacity(within); !capacity.EqualTo(within) || excess != nil {
		t.Errorf("within its bounds: %s, %q", capacity, excess)
	}
	if labels, excess = all.BoundsOf("vm-2").CutLabels(label.Of("zone", "a")); len(labels) != 0 || len(excess) != 1 {
		t.Errorf("no labels are allowed: %s, %q", labels, excess)
	}
	if capacity, excess = all.BoundsOf("vm-2").CutCapacity(within); !capacity.EqualTo(within) || excess != nil {
		t.Errorf("labels alone are bounded: %s, %q", capacity, excess)
	}
	none := all.BoundsOf("vm-3")
	if capacity, excess = none.CutCapacity(within); !capacity.EqualTo(within) || excess != nil {
		t.Errorf("without bounds: %s, %q", capacity, excess)
	}
	if labels, excess = none.CutLabels(label.Of("a", "b")); len(labels) != 1 || excess != nil {
		t.Errorf("without bounds: %s, %q", labels, excess)
	}
}

func TestBoundsOfHostsThatAreRefused(t *testing.T) {
	agent := "identities:\n- {name: a, role: agent, host: h, tokenHash: " + some + ", "
	for name, test := range map[string]struct{ text, want string }{
		"no quantity":     {agent + "capacity: {memory: lots}}\n", "identities[0].capacity: memory: \"lots\""},
		"a negative one":  {agent + "capacity: {memory: -1}}\n", "identities[0].capacity: memory"},
		"no label's name": {agent + "labels: {'?': a}}\n", "identities[0].labels.?"},
		"an empty value":  {agent + "labels: {zone: ''}}\n", `identities[0].labels.zone: "": want a label's value, a list of them, or * for any`},
		"of a reader":     {"identities:\n- {name: a, role: reader, tokenHash: " + some + ", capacity: {cpu: 1}}\n", "identities[0].capacity: means nothing for the role reader: want it for agent only"},
		"labels of one":   {"identities:\n- {name: a, role: reader, tokenHash: " + some + ", labels: {}}\n", "identities[0].labels: means nothing for the role reader"},
		"no token":        {"identities:\n- {name: a, role: agent, host: h}\n", "identities[0].tokenHash: missing"},
		"twice":           {agent + "labels: {}}\n- {name: b, role: agent, host: h, labels: {}}\n", `identities[1].host: "h": want capacity and labels in one identity of a host only`},
	} {
		if _, err := access.Parse("f.yaml", []byte(test.text)); err == nil || !strings.Contains(err.Error(), test.want) {
			t.Errorf("%s: got %v, want %s", name, err, test.want)
		}
	}
}

func TestEditsKeepBounds(t *testing.T) {
	entry, err := access.NewEntry(identity.Reader, "web", "", nil, nil, false, time.Time{}, "token")
	if err != nil {
		t.Fatal(err)
	}
	content, err := access.Append("f", []byte(bounded), entry)
	if err != nil {
		t.Fatal(err)
	}
	if content, err = access.Remove("f", content, "vm-2"); err != nil {
		t.Fatal(err)
	}
	all, err := access.Parse("f", content)
	if err != nil || all.BoundsOf("vm-1") == nil || all.BoundsOf("vm-2") != nil {
		t.Errorf("%v: %s", err, content)
	}
}
