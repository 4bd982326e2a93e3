package consul

import (
	"context"
	"errors"
	"log/slog"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/hashicorp/consul/api"

	"github.com/bursar/bursar/internal/clusterid"
	"github.com/bursar/bursar/internal/discovery"
	"github.com/bursar/bursar/test/proc"
)

// The identities of two clusters.
var (
	clusterOne = clusterid.New("one", "aaaabbbbccccddddeeeeffff22")
	clusterTwo = clusterid.New("two", "gggghhhhiiiijjjjkkkkllll33")
)

// finder runs a Finder with options.
func finder(t *testing.T, client *Client, options FinderOptions) *Finder {
	t.Helper()
	options.Log = slog.New(slog.DiscardHandler)
	f := NewFinder(client, options)
	run(t, f.Run)
	return f
}

func only(url string) func([]discovery.Coordinator) bool {
	return func(list []discovery.Coordinator) bool {
		return cmp.Equal(list, []discovery.Coordinator{{URL: url, Leads: true}})
	}
}

func TestCoordinatorsOfAnotherClusterAreNotFound(t *testing.T) {
	client := open(t, Config{Address: shared.Address})
	of1, _ := register(t, client, RegistrationOptions{ID: "of1", URL: "http://one.example.com:7070", Identity: clusterOne})
	of1.Lead(1)
	of2, end2 := register(t, client, RegistrationOptions{ID: "of2", URL: "http://two.example.com:7070", Identity: clusterTwo})
	of2.Lead(9)
	pin := clusterid.NewPin("")
	pin.Hold(clusterOne)
	pinned := finder(t, client, FinderOptions{Pin: pin})
	finds(t, pinned, only("http://one.example.com:7070"))
	named := finder(t, client, FinderOptions{Cluster: "two"})
	finds(t, named, only("http://two.example.com:7070"))
	// the finder reports the cluster that it saw
	eventually(t, func() bool { seen := pin.Seen(); return len(seen) == 1 && seen[0] == clusterTwo })

	var log proc.Output
	undecided := NewFinder(client, FinderOptions{Log: slog.New(slog.NewTextHandler(&log, nil))})
	run(t, undecided.Run)
	eventually(t, func() bool {
		return strings.Contains(log.String(), "coordinators of several clusters are registered as service")
	})
	if list, _ := undecided.Coordinators(); len(list) > 0 {
		t.Errorf("found %v although nothing tells which cluster is meant", list)
	}
	end2()
	finds(t, undecided, only("http://one.example.com:7070"))
	// and from then on it belongs to that cluster
	again, _ := register(t, client, RegistrationOptions{ID: "of2", URL: "http://two.example.com:7070", Identity: clusterTwo})
	again.Lead(9)
	of1.Lead(2)
	finds(t, pinned, only("http://one.example.com:7070"))
	finds(t, undecided, only("http://one.example.com:7070"))
}

// The coordinator of an earlier version, and an entry that an operator has written, do not name
// their cluster. A store that has replaced another one does.
func TestEntriesThatDoNotSayWhoseTheyAreAreFound(t *testing.T) {
	client := open(t, Config{Address: shared.Address})
	register(t, client, RegistrationOptions{ID: "new", URL: "http://new.example.com:7070", Identity: clusterOne})
	register(t, client, RegistrationOptions{ID: "old", URL: "http://old.example.com:7070"})
	f := finder(t, client, FinderOptions{Cluster: "one"})
	finds(t, f, func(list []discovery.Coordinator) bool { return len(list) == 2 })
	register(t, client, RegistrationOptions{
		ID: "copy", URL: "http://copy.example.com:7070", Identity: clusterid.New("one", clusterTwo.Store), Replaces: []string{clusterOne.Store},
	})
	finds(t, f, func(list []discovery.Coordinator) bool {
		for _, c := range list {
			if c.URL == "http://copy.example.com:7070" {
				return true
			}
		}
		return false
	})
}

// told is the last report of Rivals.
type told struct {
	mu     sync.Mutex
	err    error // guarded by mu
	yields bool  // guarded by mu
}

func (w *told) set(err error, yields bool) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.err, w.yields = err, yields
}

func (w *told) is(found, yields bool) func() bool {
	return func() bool {
		w.mu.Lock()
		defer w.mu.Unlock()
		return (w.err != nil) == found && w.yields == yields
	}
}

func rivals(t *testing.T, client *Client, own clusterid.Identity) (*Rivals, *told) {
	t.Helper()
	w := &told{}
	r := NewRivals(client, RivalsOptions{Own: own, Told: w.set, Log: slog.New(slog.DiscardHandler)})
	r.gone = 0
	run(t, r.Run)
	return r, w
}

func TestTheClusterThatCameLaterYields(t *testing.T) {
	client := open(t, Config{Address: shared.Address})
	first, toldFirst := rivals(t, client, clusterOne)
	_, end1 := register(t, client, RegistrationOptions{ID: "of1", URL: "http://one.example.com:7070", Identity: clusterOne, Allowed: first.Allowed})
	second, toldSecond := rivals(t, client, clusterTwo)
	eventually(t, toldSecond.is(true, true))
	late, err := NewRegistration(client, RegistrationOptions{
		ID: "of2", URL: "http://two.example.com:7070", Identity: clusterTwo, Allowed: second.Allowed, Log: slog.New(slog.DiscardHandler),
	})
	if err != nil {
		t.Fatal(err)
	}
	run(t, late.Run)
	var occupied *OccupiedError
	if err := second.Allowed(t.Context()); !errors.As(err, &occupied) || occupied.Other != clusterOne {
		t.Errorf("error %v: want that cluster one has the name", err)
	}
	if !late.LastPass().IsZero() || !toldFirst.is(false, false)() {
		t.Error("the later cluster is registered")
	}
	// it continues without help
	end1()
	if err := late.Registered(t.Context()); err != nil {
		t.Fatal(err)
	}
	eventually(t, toldSecond.is(false, false))
}

// If both clusters are registered because one of them looked too early, the later one leaves.
func TestOfTwoRegisteredClustersTheLaterOneLeaves(t *testing.T) {
	client := open(t, Config{Address: shared.Address})
	first, toldFirst := rivals(t, client, clusterOne)
	register(t, client, RegistrationOptions{ID: "of1", URL: "http://one.example.com:7070", Identity: clusterOne, Allowed: first.Allowed})
	// an entry written by hand comes later, too
	byHand := &api.AgentServiceRegistration{
		ID: "by-hand", Name: client.Service(), Address: "three.example.com", Port: 7070, Meta: map[string]string{metaCluster: "three"},
	}
	consul, err := shared.Client()
	if err != nil {
		t.Fatal(err)
	}
	if err := consul.Agent().ServiceRegister(byHand); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = consul.Agent().ServiceDeregister("by-hand") })
	eventually(t, toldFirst.is(true, false)) // it stays, and reports the conflict

	// this one looks only after its registration
	second, toldSecond := rivals(t, client, clusterTwo)
	var looks atomic.Bool
	register(t, client, RegistrationOptions{ID: "of2", URL: "http://two.example.com:7070", Identity: clusterTwo, Allowed: func(ctx context.Context) error {
		if !looks.Load() {
			return nil
		}
		return second.Allowed(ctx)
	}})
	eventually(t, toldSecond.is(true, true))
	looks.Store(true)
	eventually(t, func() bool {
		entries, _, err := consul.Health().Service(client.Service(), "", false, nil)
		return err == nil && !slices.ContainsFunc(entries, func(e *api.ServiceEntry) bool { return identityOf(e) == clusterTwo })
	})
}
