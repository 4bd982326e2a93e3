package ledger

import (
	"testing"

	"github.com/bursar/bursar/resource"
)

// A part is meant by its very address, or by one that leaves things out and can mean no other part.
func TestAPartIsFoundByAnAddressThatMeansItAlone(t *testing.T) {
	address := func(kind, cluster, path, partition string) resource.Address {
		return resource.Address{Kind: kind, Cluster: cluster, Path: path, Partition: partition}
	}
	parts := []resource.External{
		{Address: address("yarn", "prod", "root.a", "")},
		{Address: address("yarn", "prod", "root.a", "gpu")},
		{Address: address("yarn", "prod", "root.b.x", "")},
		{Address: address("yarn", "dev", "root.c", "gpu")},
		{Address: address("k8s", "prod", "root.x", "")},
		{Address: address("yarn", "prod", "x", "")},
	}
	for _, test := range []struct {
		asked resource.Address
		want  int // none: -1
	}{
		{address("yarn", "prod", "root.a", ""), 0},
		{address("yarn", "", "root.a", ""), -1}, // either of two
		{address("yarn", "", "root.a", "gpu"), 1},
		{address("yarn", "", "a", "gpu"), 1},
		{address("yarn", "", "root.b.x", ""), 2},
		{address("yarn", "prod", "b.x", ""), -1},
		{address("yarn", "", "x", ""), -1}, // the last of three names, or all of one
		{address("yarn", "prod", "x", ""), 5},
		{address("yarn", "", "c", ""), 3},
		{address("yarn", "dev", "root.c", ""), 3},
		{address("yarn", "prod", "c", ""), -1},
		{address("yarn", "dev", "c", "ssd"), -1},
		{address("k8s", "", "x", ""), 4},
		{address("mesos", "", "c", ""), -1},
	} {
		if at, found := partOf(parts, test.asked); found != (test.want >= 0) || found && at != test.want {
			t.Errorf("%s: part %d, %t; want %d", test.asked, at, found, test.want)
		}
	}
}
