package main

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"time"

	"github.com/bursar/bursar/client"
	"github.com/bursar/bursar/internal/discovery"
	bursarv1 "github.com/bursar/bursar/proto/bursar/v1"
	"github.com/bursar/bursar/test/consul"
	"github.com/bursar/bursar/test/postgres"
	"github.com/bursar/bursar/test/proc"
)

// team is several coordinators of one cluster, with their Consul and their database.
type team struct {
	run      *run
	postgres *postgres.Server
	consul   *consul.Server
	members  []*member
	client   *client.Client // of any member that answers
}

// member is one coordinator, which can be ended and restarted.
type member struct {
	*daemon // nil: it does not run

	address, config string
	client          *client.Client // only of this member
}

// startTeam starts size coordinators on a database, after prepare has filled it.
func (r *run) startTeam(ctx context.Context, size int, s setup, prepare func(store string) error) (t *team, err error) {
	t = &team{run: r}
	defer func() {
		if err != nil {
			err, t = errors.Join(err, t.stop()), nil
		}
	}()
	if t.postgres, s.store, err = r.startPostgres(ctx); err != nil {
		return t, err
	}
	if err := prepare(s.store); err != nil {
		return t, err
	}
	servers, err := consul.Launch(ctx, filepath.Join(r.dir, fmt.Sprintf("consul-%d", time.Now().UnixNano())), 1, consul.Options{})
	if err != nil {
		return t, err
	}
	t.consul, s.consul = servers[0], servers[0].Address
	var urls []string
	for range size {
		m := &member{}
		if m.address, err = proc.FreeAddress(); err != nil {
			return t, err
		}
		m.config = s.configure(m.address)
		if m.client, err = client.New(m.address, client.WithoutRetries()); err != nil {
			return t, err
		}
		t.members, urls = append(t.members, m), append(urls, "http://"+m.address)
	}
	finder, err := discovery.Static(urls)
	if err != nil {
		return t, err
	}
	t.client = client.NewCluster(finder)
	for _, m := range t.members {
		if err := t.start(ctx, m); err != nil {
			return t, err
		}
	}
	return t, nil
}

// start starts a member, and waits until it leads or knows the leader.
func (t *team) start(ctx context.Context, m *member) (err error) {
	m.daemon, err = t.run.start(ctx, "coordinator", m.config, func(ctx context.Context) error { return probe(ctx, "http://"+m.address+"/readyz") })
	return err
}

// errNobody means that no coordinator leads.
var errNobody = errors.New("nobody leads")

// leader waits until another member than the given one leads, and returns it with the time of the
// discovery.
func (t *team) leader(ctx context.Context, not *member) (found *member, seen time.Time, err error) {
	ctx, cancel := context.WithTimeout(ctx, startTimeout)
	defer cancel()
	err = await(ctx, 5*time.Millisecond, func(ctx context.Context) error {
		for _, m := range t.members {
			if m == not || m.daemon == nil {
				continue
			}
			status, err := m.client.Cluster().Status(ctx, &bursarv1.StatusRequest{AllowStale: true})
			if err == nil && status.GetIsLeader() {
				found, seen = m, time.Now()
				return nil
			}
		}
		return errNobody
	})
	return found, seen, err
}

// standby returns a member that does not lead.
func (t *team) standby(leader *member) *member {
	for _, m := range t.members {
		if m != leader {
			return m
		}
	}
	return nil
}

// stop ends all members.
func (t *team) stop() error {
	var errs []error
	for _, m := range t.members {
		if m.daemon != nil {
			errs = append(errs, m.stop())
		}
		m.client.Close()
	}
	if t.client != nil {
		t.client.Close()
	}
	if t.consul != nil {
		t.consul.Kill()
	}
	if t.postgres != nil {
		errs = append(errs, t.postgres.Close())
	}
	return errors.Join(errs...)
}
