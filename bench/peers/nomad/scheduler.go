package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"sync"
	"time"

	"github.com/hashicorp/go-memdb"
	"github.com/hashicorp/nomad/nomad"
	"github.com/hashicorp/nomad/nomad/structs"

	"github.com/bursar/bursar/bench/peers"
)

// scheduler is a server of Nomad, with one goroutine for each request that is not granted yet.
type scheduler struct {
	server  *nomad.Server
	dir     string
	granted func(name string, allocations int)

	ctx      context.Context // ends with Close
	stop     context.CancelFunc
	watchers sync.WaitGroup
}

func (s *scheduler) Open(c peers.Cluster, granted func(string, int)) (string, error) {
	s.granted = granted
	s.ctx, s.stop = context.WithCancel(context.Background())
	var err error
	if s.dir, err = os.MkdirTemp("", "bursar-bench-nomad-"); err != nil {
		return "", fmt.Errorf("a place to work: %w", err)
	}
	if s.server, err = startServer(s.dir); err != nil {
		return "", err
	}
	if err := s.lead(); err != nil {
		return "", err
	}
	for i := range c.Hosts {
		if err := s.server.State().UpsertNode(structs.NodeRegisterRequestType, uint64(1000+i), host(i, c.Host)); err != nil { //nolint:gosec // small
			return "", fmt.Errorf("host %d: %w", i, err)
		}
	}
	return peers.VersionOf("github.com/hashicorp/nomad"), nil
}

// lead returns when the server leads and can sign the identities of its workloads.
func (s *scheduler) lead() error {
	deadline := time.Now().Add(time.Minute)
	for time.Now().Before(deadline) {
		request := structs.GenericRequest{QueryOptions: structs.QueryOptions{Region: region, Namespace: structs.DefaultNamespace}}
		var keys structs.KeyringListPublicResponse
		if err := s.server.RPC("Keyring.ListPublic", &request, &keys); err == nil && len(keys.PublicKeys) > 0 && s.server.IsLeader() {
			return nil
		}
		time.Sleep(50 * time.Millisecond)
	}
	return errors.New("the server does not lead after a minute")
}

// Submit registers a job for each request.
func (s *scheduler) Submit(requests []peers.Request) error {
	for i := range requests {
		r := &requests[i]
		register := structs.JobRegisterRequest{Job: job(r), WriteRequest: structs.WriteRequest{Region: region, Namespace: structs.DefaultNamespace}}
		var registered structs.JobRegisterResponse
		if err := s.server.RPC("Job.Register", &register, &registered); err != nil {
			return fmt.Errorf("register %s: %w", r.Name, err)
		}
		if !r.Waits {
			s.watchers.Go(func() { s.watch(r.Name, r.Count) })
		}
	}
	return nil
}

// watch reports the allocations of a job until there are so many.
func (s *scheduler) watch(name string, count int) {
	for seen := 0; seen < count; {
		changed := memdb.NewWatchSet()
		changed.Add(s.ctx.Done())
		allocations, err := s.server.State().AllocsByJob(changed, structs.DefaultNamespace, name, true)
		if err != nil {
			fmt.Fprintln(os.Stderr, "nomad: job", name, err)
			return
		}
		if n := len(allocations); n > seen {
			s.granted(name, n-seen)
			seen = n
			continue
		}
		if changed.WatchCtx(s.ctx) != nil || s.ctx.Err() != nil {
			return
		}
	}
}

func (s *scheduler) Release(r peers.Request) error {
	remove := structs.JobDeregisterRequest{JobID: r.Name, Purge: true, WriteRequest: structs.WriteRequest{Region: region, Namespace: structs.DefaultNamespace}}
	var removed structs.JobDeregisterResponse
	if err := s.server.RPC("Job.Deregister", &remove, &removed); err != nil {
		return fmt.Errorf("remove %s: %w", r.Name, err)
	}
	return nil
}

func (s *scheduler) Close() error {
	if s.stop == nil {
		return nil
	}
	s.stop()
	s.watchers.Wait()
	var err error
	if s.server != nil {
		err = s.server.Shutdown()
	}
	return errors.Join(err, os.RemoveAll(s.dir))
}
