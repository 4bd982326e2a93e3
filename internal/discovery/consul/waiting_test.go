package consul

import (
	"context"
	"log/slog"
	"testing"
	"time"

	"github.com/hashicorp/consul/api"

	"github.com/bursar/bursar/internal/discovery"
	server "github.com/bursar/bursar/test/consul"
)

// Consul answers a held query with other headers than one that it answers at once.
func TestFinderHearsOfChangesWhileItWaits(t *testing.T) {
	s := server.Start(t, server.Options{})
	c, err := New(Config{Address: s.Address}, slog.New(slog.DiscardHandler))
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	register := func(id string, port int, tags ...string) {
		t.Helper()
		if err := c.API().Agent().ServiceRegister(&api.AgentServiceRegistration{
			ID: id, Name: c.Service(), Address: "127.0.0.1", Port: port, Tags: tags,
		}); err != nil {
			t.Fatal(err)
		}
	}
	register("a", 7001, LeaderTag)
	finder := NewFinder(c, FinderOptions{Log: slog.New(slog.DiscardHandler)})
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		_ = finder.Run(ctx)
	}()
	defer func() {
		cancel()
		<-ended
	}()
	await := func(want ...discovery.Coordinator) {
		t.Helper()
		for {
			known, changed := finder.Coordinators()
			if len(known) == len(want) && known[0] == want[0] {
				return
			}
			select {
			case <-changed:
			case <-ctx.Done():
				t.Fatalf("known are %v: want %v", known, want)
			}
		}
	}
	a, b := discovery.Coordinator{URL: "http://127.0.0.1:7001"}, discovery.Coordinator{URL: "http://127.0.0.1:7002"}
	leading := func(c discovery.Coordinator) discovery.Coordinator {
		c.Leads = true
		return c
	}
	await(leading(a))
	register("b", 7002)
	await(leading(a), b)
	register("a", 7001)
	register("b", 7002, LeaderTag)
	await(leading(b), a)
}
