package chaos

import (
	"fmt"
	"math/rand/v2"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/bursar/bursar/client"
	bursarv1 "github.com/bursar/bursar/proto/bursar/v1"
	"github.com/bursar/bursar/test/postgres"
	"github.com/bursar/bursar/test/proc"
)

// What works on servers that are killed again and again.
const (
	// churners remember the answers, and ask until they get one.
	churners    = 16
	forgetful   = 4 // ask once, and never come back for what was not answered
	mostHeld    = 4 // allocations of one churner
	mostQueued  = 2 // requests of one churner that wait without end
	mostKeepers = 5 // engines that run at the same time
)

// siegeQuotas are small enough that many requests are refused or wait.
const siegeQuotas = "quotas:\n  - selector: {user: \"*\"}\n    limit: {memory: 128MiB, instances: 20}\n" +
	"  - selector: {user: single}\n    limit: {instances: 1}\n"

// TestKillingDevLosesNothingThatWasAcknowledged kills `bursar dev` at random moments under load,
// also while it starts. After each restart the clients finish their work, and then exactly those
// allocations live that they know.
func TestKillingDevLosesNothingThatWasAcknowledged(t *testing.T) {
	s := newSiege(t, place(t))
	quotas := s.write("quotas.yaml", siegeQuotas)
	s.begin = func() []*proc.Process {
		return []*proc.Process{start(t, "dev", "--listen", s.address, "--data-dir", filepath.Join(s.dir, "dev"), "--agent-socket", s.socket,
			"--quotas", quotas, "--log-level", "info", "--log-format", "text")}
	}
	s.run(*killsFlag)
}

// TestKillingACoordinatorOnPostgreSQLLosesNothingThatWasAcknowledged does the same to a
// coordinator whose store is a PostgreSQL that runs on, a quarter as often; every other time its
// agent is killed with it.
func TestKillingACoordinatorOnPostgreSQLLosesNothingThatWasAcknowledged(t *testing.T) {
	dsn := must[string](t)(postgres.Start(t, postgres.Options{}).CreateDatabase(t.Context(), "bursar"))
	c := newCluster(t, settings{quotas: siegeQuotas})
	c.write("coordinator.yaml", fmt.Sprintf("listen: %s\nadvertise: http://%[1]s\nelection: alone\nstore: %s\nquotaFiles: [%s]\ntimes:\n  interval: 1s\n  suspectAfter: 10\n",
		c.address, dsn, filepath.Join(c.dir, "quotas.yaml")))
	s := newSiege(t, c)
	s.begin = func() []*proc.Process {
		begun := []*proc.Process{start(t, "coordinator", "--config", filepath.Join(s.dir, "coordinator.yaml"), "--log-format", "text")}
		if s.agent == nil || !s.agent.Running() {
			s.agent = start(t, "agent", "--config", filepath.Join(s.dir, "agent.yaml"), "--log-format", "text")
		}
		if s.random.IntN(2) == 0 {
			begun = append(begun, s.agent)
		}
		return begun
	}
	s.run(max(1, *killsFlag/4))
}

// newSiege makes the test's state. What is besieged is set by the test.
func newSiege(t *testing.T, c *cluster) *siege {
	t.Helper()
	seed, random := randomness(t)
	return &siege{cluster: c, seed: seed, random: random, acknowledged: map[string]*kept{}, forgotten: map[string]bool{}}
}

// run kills so often, and ends everything in order.
func (s *siege) run(kills int) {
	s.t.Helper()
	began := time.Now()
	s.startServers()
	s.hold()

	var working sync.WaitGroup
	stop := make(chan struct{})
	for n := range churners + forgetful {
		k := s.newChurner(n)
		working.Go(func() { k.churn(stop) })
	}
	for range kills {
		s.cycle()
		if s.t.Failed() {
			break
		}
	}
	close(stop)
	working.Wait()
	if s.t.Failed() {
		return
	}
	s.endWaiter()
	for _, k := range s.keepers {
		k.engine.kill()
	}
	for id := range s.acknowledged { // some of them have no host, and so no agent may touch them
		if _, err := s.remote.Allocations().Release(s.t.Context(), &bursarv1.ReleaseRequest{Id: id}); err != nil {
			s.t.Fatal(err)
		}
	}
	s.expectEmpty(15 * time.Second)

	slices.Sort(s.recoveries)
	s.t.Logf("%d kills under load and %d during the start in %s: up again after %s (median), %s (longest)", len(s.recoveries), s.startKills,
		time.Since(began).Round(time.Second), s.recoveries[len(s.recoveries)/2], s.recoveries[len(s.recoveries)-1])
	s.t.Logf("%d things done, %d grants, %d of them asked for again after a kill, %d resized", s.done.Load(), s.granted, s.repeated, s.resized)
	s.t.Logf("%d engines lived through kills, %d ended meanwhile", s.survived, s.mourned)
}

// siege is the test's state.
type siege struct {
	*cluster
	seed   uint64
	random *rand.Rand
	// begin starts the servers that do not run, and returns which of them are to be killed next.
	begin func() []*proc.Process
	// doomed are those, and before what was killed the time before, whose output is kept for a
	// test that fails.
	doomed, before []*proc.Process

	// first is the id of the allocation that has all of a quota, waits that of one that waits for
	// it through all kills.
	first, waits string
	keepers      []*keeper

	recoveries                    []time.Duration
	startKills, survived, mourned int

	done atomic.Int64 // things that the clients have done

	// pauseLock is held shared while a client works, and exclusively during a comparison.
	pauseLock sync.RWMutex

	mu sync.Mutex
	// Guarded by mu; the allocations that live, as the clients know them, by id.
	acknowledged map[string]*kept
	// Guarded by mu; ids of requests whose outcome is unknown.
	forgotten                  map[string]bool
	granted, repeated, resized int // guarded by mu
}

// kept is an allocation as its client knows it.
type kept struct {
	request *bursarv1.AllocateRequest
	last    *bursarv1.Allocation
}

// keeper is an engine that runs on whatever becomes of the servers.
type keeper struct {
	engine *engine
	id     string
	kills  int // that it has lived through
}

// startServers starts them and waits until a request through the agent is granted. It returns how
// long that took.
func (s *siege) startServers() time.Duration {
	s.t.Helper()
	began := time.Now()
	s.launch()
	probe := s.client(s.socket, client.WithoutRetries())
	defer probe.Close()
	r := request("probe", 0, 0)
	eventually(s.t, upTime, "a request is granted", func() error {
		for _, p := range s.doomed {
			if !p.Running() {
				s.t.Fatalf("%s has ended: %v", p.Name, p.Err())
			}
		}
		_, err := probe.Allocations().Allocate(s.t.Context(), r)
		return err
	})
	took := time.Since(began)
	if _, err := probe.Allocations().Cancel(s.t.Context(), &bursarv1.CancelRequest{RequestId: r.GetRequestId()}); err != nil {
		s.t.Fatal(err)
	}
	return took
}

func (s *siege) launch() {
	s.t.Helper()
	s.doomed = s.begin()
}

// killServers kills all doomed servers at once, and checks what they have printed.
func (s *siege) killServers() {
	s.t.Helper()
	for _, p := range s.doomed {
		p.SendKill() // a moment before each is waited for
	}
	for _, p := range s.doomed {
		p.Kill()
		p.CheckFaults()
	}
	for _, p := range s.before {
		p.Output.Forget()
	}
	s.before = s.doomed
}

// hold makes one allocation that has all of a quota, and one that waits for it through all that
// follows.
func (s *siege) hold() {
	s.t.Helper()
	s.first = s.allocate(request("single", 0, 0)).GetId()
	if _, err := s.local.Allocations().Confirm(s.t.Context(), &bursarv1.ConfirmRequest{Id: s.first, Address: "elsewhere:1"}); err != nil {
		s.t.Fatal(err)
	}
	r := request("single", 0, 0)
	r.Wait, r.Async = seconds(24*3600), true
	s.waits = s.allocate(r).GetId()
}

// endWaiter frees what the waiting request waits for, and expects it to be granted.
func (s *siege) endWaiter() {
	s.t.Helper()
	if err := s.is(s.waits, waiting); err != nil {
		s.t.Fatal(err)
	}
	s.release(s.first)
	eventually(s.t, 5*time.Second, "the request that waited through every kill is granted", func() error { return s.is(s.waits, reserved) })
	s.release(s.waits)
}

// cycle is one kill and what must be true after it.
func (s *siege) cycle() {
	s.t.Helper()
	started := s.startKeeper()
	s.letWork(s.random.Int64N(200))
	s.killServers()
	mourned := s.endKeeper()
	if s.random.IntN(3) == 0 {
		s.launch()
		rest(s.t.Context(), upTo(s.random, 300*time.Millisecond))
		s.killServers()
		s.startKills++
	}
	s.recoveries = append(s.recoveries, s.startServers().Round(time.Millisecond))
	if k := <-started; k != nil {
		s.keepers = append(s.keepers, k)
	}
	s.compare(mourned)
}

// letWork returns when the clients have done n more things, or have had a second for it.
func (s *siege) letWork(things int64) {
	target, began := s.done.Load()+things, time.Now()
	for s.done.Load() < target && time.Since(began) < time.Second {
		rest(s.t.Context(), time.Millisecond)
	}
}

// startKeeper starts an engine and has it confirmed, while the kill may come at any moment.
func (s *siege) startKeeper() <-chan *keeper {
	s.t.Helper()
	started := make(chan *keeper, 1)
	if len(s.keepers) >= mostKeepers {
		started <- nil
		return started
	}
	k := &keeper{engine: startEngine(s.t)}
	local := s.client(s.socket, client.WithRetries(client.RetryPolicy{Patience: upTime})).Allocations()
	go func() {
		defer func() { started <- k }()
		r := request("keeper", 1<<20, 1)
		res, err := local.Allocate(s.t.Context(), r)
		if err != nil {
			s.t.Errorf("allocate for an engine: %v", err)
			return
		}
		k.id = res.GetAllocation().GetId()
		confirm := &bursarv1.ConfirmRequest{Id: k.id, Process: &bursarv1.Process{Pid: int32(k.engine.pid())}}
		if _, err := local.Confirm(s.t.Context(), confirm); err != nil {
			s.t.Errorf("confirm an engine: %v", err)
		}
	}()
	return started
}

// endKeeper ends one of the engines while nobody watches.
func (s *siege) endKeeper() (id string) {
	if len(s.keepers) < mostKeepers || s.random.IntN(4) > 0 {
		return ""
	}
	n := s.random.IntN(len(s.keepers))
	k := s.keepers[n]
	s.keepers = slices.Delete(s.keepers, n, n+1)
	k.engine.kill()
	s.mourned++
	return k.id
}

// compare stops all clients between two calls, and compares what lives with what they know.
func (s *siege) compare(mourned string) {
	s.t.Helper()
	s.pauseLock.Lock()
	defer s.pauseLock.Unlock()
	if mourned != "" {
		// Agents measure every second here.
		eventually(s.t, 2*tick, "an engine that ended while its agent was away is released", func() error { return s.is(mourned, released) })
	}
	listed := live(s.t, s.remote)
	byID, byRequest := map[string]*bursarv1.Allocation{}, map[string]string{}
	for _, a := range listed {
		if byID[a.GetId()] != nil {
			s.t.Errorf("%s is listed twice", a.GetId())
		}
		byID[a.GetId()] = a
		if other := byRequest[a.GetRequestId()]; other != "" {
			s.t.Errorf("request %s has two allocations, %s and %s", a.GetRequestId(), other, a.GetId())
		}
		byRequest[a.GetRequestId()] = a.GetId()
	}
	s.compareClients(byID)
	s.compareEngines(byID)
	if a := byID[s.waits]; a.GetState() != waiting {
		s.t.Errorf("the request that waits is %s", stateName(a.GetState()))
	}
	s.repeatSome()
	s.compareAccounts()
}

// compareClients: what was acknowledged is there as it was acknowledged, and nothing else is
// there.
func (s *siege) compareClients(byID map[string]*bursarv1.Allocation) {
	s.t.Helper()
	s.mu.Lock()
	defer s.mu.Unlock()
	now := time.Now()
	for id, k := range s.acknowledged {
		a := byID[id]
		ttl := k.last.GetState() == reserved && !k.last.GetExpireTime().AsTime().After(now)
		switch {
		case a == nil && ttl:
			delete(s.acknowledged, id) // its time was over
		case a == nil:
			s.t.Errorf("lost: %v; now %v", k.last, s.get(id))
		case a.GetState() != k.last.GetState() || !amountsOf(a.GetEntitled()).equal(amountsOf(k.last.GetEntitled())):
			s.t.Errorf("acknowledged as %v, is %v", k.last, a)
		}
	}
	for id, a := range byID {
		ours := id == s.first || id == s.waits || a.GetLabels()["user"] == "keeper"
		if s.acknowledged[id] == nil && !s.forgotten[a.GetRequestId()] && !ours {
			s.t.Errorf("no caller got %v", a)
		}
	}
}

// compareEngines: every engine that runs has its allocation, once, and its agent knows it.
func (s *siege) compareEngines(byID map[string]*bursarv1.Allocation) {
	s.t.Helper()
	atAgent := map[string]bool{}
	for _, a := range live(s.t, s.local) {
		atAgent[a.GetId()] = true
	}
	count := 0
	for _, a := range byID {
		if a.GetLabels()["user"] == "keeper" {
			count++
		}
	}
	if count != len(s.keepers) {
		s.t.Errorf("%d engines run, and %d have an allocation", len(s.keepers), count)
	}
	for _, k := range s.keepers {
		a := byID[k.id]
		if a.GetState() != active || int(a.GetProcess().GetPid()) != k.engine.pid() || a.GetOverLimit() || !atAgent[k.id] {
			s.t.Errorf("the engine %d, which runs, is %v; known to the agent: %v", k.engine.pid(), a, atAgent[k.id])
		}
		if !proc.Alive(k.engine.pid()) {
			s.t.Errorf("the engine %d was killed", k.engine.pid())
		}
		if k.kills++; k.kills == 1 {
			s.survived++
		}
	}
}

// repeatSome asks again for what was granted before the kill.
func (s *siege) repeatSome() {
	s.t.Helper()
	s.mu.Lock()
	defer s.mu.Unlock()
	for id, k := range s.acknowledged {
		again := s.remote.Allocations()
		// request ids are their caller's, who came over the agent
		if strings.HasPrefix(k.request.GetRequestId(), "a") {
			again = s.local.Allocations()
		}
		res, err := again.Allocate(s.t.Context(), k.request)
		if err != nil || res.GetAllocation().GetId() != id {
			s.t.Errorf("the request of %s, made again, is %v, %v", id, res.GetAllocation(), err)
		}
		if s.repeated++; s.repeated%8 == 0 {
			return
		}
	}
}

// compareAccounts: what each account holds is the sum of what lives, also by its own audit.
func (s *siege) compareAccounts() {
	s.t.Helper()
	eventually(s.t, 5*time.Second, "the accounts hold the sum of the allocations", func() error {
		sums := map[string]amounts{}
		for _, a := range live(s.t, s.remote) {
			if a.GetState() == waiting {
				continue
			}
			for _, account := range []string{"host", a.GetLabels()["user"]} {
				sums[account] = amountsOf(a.GetEntitled()).plus(sums[account])
			}
		}
		host := s.host()
		accounts := map[string]*bursarv1.Account{"host": host.GetAccount()}
		for _, account := range s.quotaAccounts() {
			accounts[account.GetName().GetLabels()["user"]] = account
		}
		for name, account := range accounts {
			held := amountsOf(account.GetUsed()).plus(amountsOf(account.GetReserved()))
			for dimension, limit := range amountsOf(account.GetLimit()) {
				// Another expired just now, or it is wrong.
				if held[dimension] != sums[name][dimension] {
					return fmt.Errorf("account %s holds %v, its allocations %v", name, held, sums[name])
				}
				if held[dimension] > limit {
					s.t.Errorf("account %s: %s: %d held, limit %d", name, dimension, held[dimension], limit)
				}
			}
		}
		return nil
	})
	res, err := s.remote.Cluster().Audit(s.t.Context(), &bursarv1.AuditRequest{})
	if err != nil || len(res.GetViolations()) > 0 {
		s.t.Errorf("audit: %v, %v", res.GetViolations(), err)
	}
}
