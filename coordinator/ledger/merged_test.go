package ledger_test

import (
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/bursar/bursar/coordinator/ledger"
	"github.com/bursar/bursar/internal/identity"
	"github.com/bursar/bursar/label"
	"github.com/bursar/bursar/resource"
)

// countables is as many custom countables as a message may have, so many of each.
func countables(prefix string, each int64) (v resource.Vector) {
	for i := range resource.MaxCustom {
		v = v.With(fmt.Sprintf("%s%d", prefix, i), each)
	}
	return v
}

// merging is a ledger with one host, one cluster and a reservation that has sixteen custom
// countables, on the host and in the cluster.
func merging(t *testing.T) (*ledger.Ledger, ledger.ID) {
	t.Helper()
	l := ledger.New(ledger.Config{}, newPlainPlacer())
	capacity := countables("a", 1).WithMemory(8 << 30).WithCPU(4000).WithInstances(10)
	memory := int64(8 << 30)
	yarn := ledger.ClusterName{Kind: "yarn", Cluster: "prod"}
	_, err := l.Register(start, ledger.RegisterCommand{HostID: "h1", Capacity: capacity, Incarnation: 1})
	if err == nil {
		_, err = l.Sync(start, ledger.SyncCommand{HostID: "h1", Incarnation: 1, Sequence: 1, Full: true, Sample: &ledger.Sample{MemoryAvailable: &memory}})
	}
	if err == nil {
		err = l.PutProvider(start, ledger.ProviderRecord{ClusterName: yarn})
	}
	if err == nil {
		err = l.ReportCluster(start, ledger.ClusterReport{
			ClusterName: yarn, Asked: start, GoodFor: 1 << 40,
			Queues: []ledger.QueueReport{{Path: "root", Limit: capacity}, {Path: "root.a", Parent: "root", Limit: capacity}},
		})
	}
	if err != nil {
		t.Fatal(err)
	}
	part := resource.External{Address: resource.Address{Kind: "yarn", Path: "a"}, Vector: countables("a", 0)}
	result, err := l.Allocate(start, ledger.AllocateCommand{
		Actor: identity.Local(), Labels: label.Of("user", "alice"), Resource: resource.NewResource(countables("a", 1).WithMemory(1<<30), part),
	})
	if err != nil {
		t.Fatal(err)
	}
	return l, result.Allocation.ID
}

// Both messages are in range, and so was what the allocation had. A store must accept the result.
func TestAMergedEntitlementIsInRangeOrRefused(t *testing.T) {
	part := resource.External{Address: resource.Address{Kind: "yarn", Path: "a"}, Vector: countables("b", 0)}
	for name, over := range map[string]resource.Resource{
		"here": resource.NewResource(countables("b", 0)), "elsewhere": resource.NewResource(resource.Vector{}, part),
	} {
		t.Run(name, func(t *testing.T) {
			l, id := merging(t)
			before, _ := l.Get(id)
			check := func(what string, err error) {
				t.Helper()
				wrong, refused := errors.AsType[*ledger.FieldError](err)
				if !refused || !strings.HasPrefix(wrong.Field, "entitled.") || !strings.HasSuffix(wrong.Field, "custom") || wrong.Value != "32" {
					t.Errorf("%s: got %v, want the field and how many there would be", what, err)
				}
				if now, _ := l.Get(id); !now.Entitled.Equal(before.Entitled) || now.Revision != before.Revision || now.State != ledger.Reserved {
					t.Errorf("%s is refused and has changed something: %+v", what, now)
				}
			}
			_, err := l.Resize(start, ledger.ResizeCommand{Actor: identity.Local(), ID: id, Entitled: over})
			check("Resize", err)
			_, err = l.Confirm(start, ledger.ConfirmCommand{Actor: identity.Local(), ID: id, Entitled: &over})
			check("Confirm", err)
		})
	}
}

// A cluster may have a queue whose full path is longer than any that a request may name. Asked for
// by its last name it is refused.
func TestAQueueThatNoRowCanNameIsRefused(t *testing.T) {
	l, _ := merging(t)
	capacity := resource.Vector{}.WithMemory(8 << 30)
	paths := []string{"root" + strings.Repeat(".deep", 40) + ".leaf", "root." + strings.Repeat("x", 600) + ".far"}
	queues := []ledger.QueueReport{{Path: "root", Limit: capacity}}
	for _, path := range paths {
		queues = append(queues, ledger.QueueReport{Path: path, Limit: capacity})
	}
	yarn := ledger.ClusterName{Kind: "yarn", Cluster: "prod"}
	if err := l.ReportCluster(start+1, ledger.ClusterReport{ClusterName: yarn, Asked: start + 1, GoodFor: 1 << 40, Queues: queues}); err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{"leaf", "far"} {
		part := resource.External{Address: resource.Address{Kind: "yarn", Path: name}, Vector: resource.Vector{}.WithMemory(1)}
		_, err := l.Allocate(start+1, ledger.AllocateCommand{
			Actor: identity.Local(), Labels: label.Of("user", "alice"), Resource: resource.NewResource(resource.Vector{}.WithMemory(1), part),
		})
		if wrong, refused := errors.AsType[*ledger.FieldError](err); !refused || wrong.Field != "resource.external[0].path" {
			t.Errorf("%s: got %v, want the path refused", name, err)
		}
	}
}
