//go:build linux

package linkis

import (
	"errors"
	"fmt"
	"net"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/bursar/bursar/client"
	"github.com/bursar/bursar/internal/discovery"
	bursarv1 "github.com/bursar/bursar/proto/bursar/v1"
	"github.com/bursar/bursar/test/consul"
	"github.com/bursar/bursar/test/postgres"
	"github.com/bursar/bursar/test/proc"
)

// coordinator is one of a world.
type coordinator struct {
	*proc.Process

	url string
}

// urls are those of all coordinators, with commas between them.
func (w *world) urls() string {
	var list []string
	for _, c := range w.coordinators {
		list = append(list, c.url)
	}
	return strings.Join(list, ",")
}

// coordinatorAddress is the first one's.
func (w *world) coordinatorAddress() string { return strings.TrimPrefix(w.coordinator.url, "http://") }

// startCoordinators starts one with a database of its own, or several with a Consul server each and
// one PostgreSQL.
func (w *world) startCoordinators(number int) {
	w.t.Helper()
	w.quotas = w.write("quotas.yaml", "quotas: []\n")
	store := []string{"dataDir: " + filepath.Join(w.dir, "coordinator")}
	if number > 1 {
		store = w.sharedStore(number)
	}
	var urls []string
	for i, where := range store {
		address := net.JoinHostPort(w.lab.Here.Address.String(), fmt.Sprint(7070+i))
		name := fmt.Sprintf("coordinator-%d", i+1)
		file := w.write(name+".yaml", fmt.Sprintf("listen: %s\n%s\ninsecure: true\nquotaFiles: [%s]\nquotaPoll: 1s\ntimes:\n  interval: 1s\n  suspectAfter: 15\n%s",
			address, where, w.quotas, w.providers))
		c := &coordinator{url: "http://" + address}
		c.Process = w.run(name, w.lab.Here, "coordinator", "--config", file, "--log-format", "text")
		w.coordinators = append(w.coordinators, c)
		urls = append(urls, c.url)
	}
	w.coordinator = w.coordinators[0]
	finder, err := discovery.Static(urls)
	if err != nil {
		w.t.Fatal(err)
	}
	w.bursar = client.NewCluster(finder)
	w.t.Cleanup(w.bursar.Close)
}

// sharedStore starts PostgreSQL and Consul, and returns what each coordinator has to know of them.
func (w *world) sharedStore(number int) (settings []string) {
	w.t.Helper()
	database := postgres.Start(w.t, postgres.Options{})
	dsn, err := database.CreateDatabase(w.t.Context(), "bursar")
	if err != nil {
		w.t.Fatal(err)
	}
	for _, server := range consul.StartCluster(w.t, number, consul.Options{Patient: true}) {
		settings = append(settings, fmt.Sprintf("store: %s\nconsul: {address: '%s'}", dsn, server.Address))
	}
	return settings
}

// leaderBut waits for a leader that is another coordinator.
func (w *world) leaderBut(not *coordinator) (leader *coordinator) {
	w.t.Helper()
	proc.Eventually(w.t, patience, 20*time.Millisecond, "a leader", func() error {
		status, err := w.bursar.Cluster().Status(w.t.Context(), &bursarv1.StatusRequest{})
		if err != nil {
			return err
		}
		for _, c := range w.coordinators {
			if c.url == status.GetLeaderUrl() && c != not {
				leader = c
				return nil
			}
		}
		return fmt.Errorf("%q leads", status.GetLeaderUrl())
	})
	return leader
}

// granted is how many engines Linkis has asked for and got: the rows of its own history.
func (w *world) granted() (count int, err error) {
	err = w.db.QueryRowContext(w.t.Context(), "SELECT COUNT(*) FROM linkis_cg_ec_resource_info_record").Scan(&count)
	return count, err
}

// awaitGrants waits until there are so many more grants than there were, and returns how long that
// took.
func (w *world) awaitGrants(more int) time.Duration {
	w.t.Helper()
	before, err := w.granted()
	if err != nil {
		w.t.Fatal(err)
	}
	began := time.Now()
	proc.Eventually(w.t, patience, 10*time.Millisecond, "engines are granted", func() error {
		now, err := w.granted()
		if err == nil && now < before+more {
			err = fmt.Errorf("%d of %d", now-before, more)
		}
		return err
	})
	return time.Since(began)
}

// TestCoordinators kills the leader of three coordinators in the middle of a load, again and again.
// No cycle fails, and nothing is granted twice or over what a host has.
func TestCoordinators(t *testing.T) {
	w := newWorld(t, options{hosts: 2, coordinators: 3})
	// A reservation that nobody knows of would outlive the load.
	w.startManager(enforced, map[string]string{"linkis.bursar.wait.max": "2s", "linkis.bursar.reservation.ttl": "10m"})
	w.manager.listed()
	for _, h := range w.hosts {
		w.startECM(h)
	}
	const changes, seconds = 4, 60
	loads := w.startLoads(seconds)
	most := make([]func() int64, len(w.hosts))
	for i, h := range w.hosts {
		most[i] = w.watchBooked(h)
	}
	ends := time.Now().Add(seconds * time.Second)
	w.awaitGrants(50)
	for range changes {
		leader := w.leaderBut(nil)
		leader.Kill()
		killed := time.Now()
		next := w.leaderBut(leader)
		led := time.Since(killed)
		w.awaitGrants(1)
		again := time.Since(killed)
		if time.Now().After(ends) {
			t.Fatal("the load ended before the leader was changed: it proves nothing")
		}
		leader.Start()
		answers := w.awaitAnswers(leader)
		more := w.awaitGrants(50)
		t.Logf("%s was killed; %s led after %s, the next grant came after %s; it answers again after %s, 50 more grants took %s",
			leader.Name, next.Name, round(led), round(again), round(answers), round(more))
	}
	results := loads()
	for i, o := range results {
		t.Logf("%s: %v", w.hosts[i].name, o)
		t.Logf("%s: longest request %.1f s, used %.1f s, release %.1f s, refusal %.1f s", w.hosts[i].name, o.Request.Max/1e3, o.Used.Max/1e3, o.Release.Max/1e3, o.Refusal.Max/1e3)
		if o.Error != "" || o.Failed != 0 || o.Over != 0 {
			t.Errorf("%d cycles failed, %d grants went over, %s", o.Failed, o.Over, o.Error)
		}
		if peak := peakOf(w.memory/8, o); peak > w.memory {
			t.Errorf("%s: %d bytes were held at the same time, of %d", w.hosts[i].name, peak, w.memory)
		}
		if booked := most[i](); booked != w.memory || o.Cycles < 100 {
			t.Errorf("no load: %d cycles, %d bytes at most", o.Cycles, booked)
		}
	}
	t.Logf("the longest time without a grant was %s", round(pauseOf(results...)))
	w.awaitNothing("after the load")
}

func round(d time.Duration) time.Duration { return d.Round(10 * time.Millisecond) }

// startLoads starts a loop of several threads for each host, which together want more than the host
// has. The returned function waits for their outcomes.
func (w *world) startLoads(seconds int) func() []outcome {
	results, running := make([]outcome, len(w.hosts)), sync.WaitGroup{}
	for i, h := range w.hosts {
		running.Go(func() {
			if err := w.call("run", values{
				"ecm": h.instance(), "threads": 10, "users": 10, "seconds": seconds, "memory": w.memory / 8, "hold": 100, "wait": 20_000, "limit": w.memory,
			}, &results[i]); err != nil {
				results[i].Error = errors.Join(errors.New(results[i].Error), err).Error()
			}
		})
	}
	return func() []outcome {
		running.Wait()
		return results
	}
}

// awaitAnswers waits until one coordinator answers from the ledger.
func (w *world) awaitAnswers(c *coordinator) time.Duration {
	w.t.Helper()
	direct, err := client.New(c.url, client.WithoutRetries())
	if err != nil {
		w.t.Fatal(err)
	}
	defer direct.Close()
	return eventually(w.t, c.Name+" answers", func() error {
		if !c.Running() {
			w.t.Fatalf("%s has ended:\n%s", c.Name, c.Output.Tail())
		}
		_, err := direct.Cluster().Status(w.t.Context(), &bursarv1.StatusRequest{})
		return err
	})
}
