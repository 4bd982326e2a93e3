package clusters

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/bursar/bursar/coordinator/ledger"
	"github.com/bursar/bursar/coordinator/placement"
	"github.com/bursar/bursar/internal/identity"
	"github.com/bursar/bursar/label"
	"github.com/bursar/bursar/providers/yarn"
	"github.com/bursar/bursar/resource"
)

var fairCluster = ledger.ClusterName{Kind: "yarn", Cluster: "fair"}

// drawSlowFair draws a FairScheduler with applications of other submitters. If it is plain, all
// queues have the same weight, and none a minimum.
func drawSlowFair(t *rapid.T, plain bool) *slowFair {
	s := &slowFair{
		dominant: rapid.Bool().Draw(t, "dominant"),
		amShare:  rapid.SampledFrom([]float32{0.5, 0.5, 0.1, 0.3, 1}).Draw(t, "AM share"),
		root:     &slowFairQueue{path: "root", weight: 1, parent: true},
	}
	s.cluster = size{rapid.Int64Range(4, 128).Draw(t, "GiB") << 10, rapid.Int64Range(4, 128).Draw(t, "cores")}
	if plain {
		s.cluster[1] = s.cluster[0] // cores do not matter
	}
	s.root.most = s.cluster
	draw := func(path string) *slowFairQueue {
		q := &slowFairQueue{path: path, weight: 1, most: s.cluster}
		if rapid.IntRange(0, 2).Draw(t, path+" has a maximum") == 0 {
			q.most = size{rapid.Int64Range(1, s.cluster[0]).Draw(t, "most"), rapid.Int64Range(1, s.cluster[1]).Draw(t, "most cores")}
		}
		if !plain {
			q.weight = rapid.SampledFrom([]float32{1, 1, 1, 2, 0.5, 3, 0}).Draw(t, "weight")
			// No answer distinguishes a weight of 0 from a minimum above the weight's share.
			if q.weight > 0 && rapid.IntRange(0, 3).Draw(t, path+" has a minimum") == 0 {
				q.least = size{rapid.Int64Range(1, s.cluster[0]/2).Draw(t, "least"), rapid.Int64Range(0, s.cluster[1]/2).Draw(t, "least cores")}
			}
		}
		return q
	}
	for i := range rapid.IntRange(1, 4).Draw(t, "queues") {
		s.root.children = append(s.root.children, draw(fmt.Sprintf("root.q%d", i)))
	}
	if rapid.Bool().Draw(t, "users have queues") {
		users := draw("root.users")
		users.parent = true
		s.root.children = append(s.root.children, users)
		for i := range rapid.IntRange(1, 3).Draw(t, "users") {
			users.children = append(users.children, &slowFairQueue{path: fmt.Sprintf("root.users.u%d", i), weight: 1, most: s.cluster})
		}
	}
	for range rapid.IntRange(0, 6).Draw(t, "applications of others") {
		q := s.queue(rapid.SampledFrom(s.leaves()).Draw(t, "queue"))
		q.apps = append(q.apps, &slowFairApp{master: s.master(t)})
		if rapid.Bool().Draw(t, "it comes alone") {
			s.settle()
		}
	}
	s.settle()
	if rapid.Bool().Draw(t, "some end") {
		for _, q := range s.all(s.root) {
			if rapid.Bool().Draw(t, "all in "+q.path) {
				q.apps, q.masters, q.allocated = nil, size{}, size{}
			}
		}
		s.settle()
	}
	for _, q := range s.all(s.root) { // what waits only makes its queue active
		for _, a := range q.apps {
			a.stuck = !a.started
		}
	}
	return s
}

func (s *slowFair) leaves() (paths []string) {
	for _, q := range s.all(s.root) {
		if !q.parent {
			paths = append(paths, q.path)
		}
	}
	return paths
}

// master draws a master that often fits.
func (s *slowFair) master(t *rapid.T) size {
	n := max(1, s.cluster[0]/rapid.SampledFrom([]int64{128, 64, 32, 16, 8, 4, 3}).Draw(t, "part of the cluster"))
	return size{n, rapid.Int64Range(1, 2).Draw(t, "cores")}
}

// read passes an answer to the ledger.
func (s *slowFair) read(t *rapid.T, l *ledger.Ledger) {
	answer := `{"scheduler":{"schedulerInfo":{"type":"fairScheduler","rootQueue":` + s.answer(s.root) + `}}}`
	said, err := yarn.Decode(strings.NewReader(answer))
	if err != nil {
		t.Fatal(err)
	}
	said.Assume = yarn.Assumptions{AMShare: float64(s.amShare), Undeclared: yarn.Undeclared{Fair: true}}
	reports, err := QueueReports(said.Queues(nil))
	if err != nil {
		t.Fatal(err)
	}
	err = l.ReportCluster(1, ledger.ClusterReport{ClusterName: fairCluster, Asked: 1, GoodFor: time.Hour, Settle: time.Minute, Queues: reports})
	if err != nil {
		t.Fatal(err)
	}
}

func fairLedger(t *rapid.T) *ledger.Ledger {
	l := ledger.New(ledger.Config{}, placement.New(placement.Spread))
	available := int64(1 << 50)
	_, err := l.Register(1, ledger.RegisterCommand{HostID: "h1", Incarnation: 1, Capacity: resource.Vector{}.WithMemory(available)})
	if err == nil {
		_, err = l.Sync(1, ledger.SyncCommand{HostID: "h1", Incarnation: 1, Sequence: 1, Full: true, Sample: &ledger.Sample{MemoryAvailable: &available}})
	}
	if err == nil {
		err = l.PutProvider(1, ledger.ProviderRecord{ClusterName: fairCluster})
	}
	if err != nil {
		t.Fatal(err)
	}
	return l
}

// ask requests only a master.
func ask(l *ledger.Ledger, path string, master size) error {
	r := resource.NewResource(resource.Vector{}.WithMemory(1))
	memory, cpu := master[0]<<20, master[1]*1000
	r.External = []resource.External{{
		Address: resource.Address{Kind: fairCluster.Kind, Cluster: fairCluster.Cluster, Path: path},
		Vector:  resource.Vector{}.WithMemory(memory).WithCPU(cpu).With(resource.AMMemory, memory).With(resource.AMCPU, cpu),
	}}
	_, err := l.Allocate(1, ledger.AllocateCommand{
		Actor: identity.Actor{Name: "c", Anyone: true}, Labels: label.Set{{Key: "user", Value: "u"}}, Resource: r,
	})
	return err
}

// Without other submitters, all grants between two readings start, in any order of arrival at YARN
// and whichever queues they make active. A refused request that YARN would start has an estimated
// limit, or had to wait for masters that have started since.
func TestWhatIsGrantedInAFairSchedulerStarts(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		plain := rapid.Bool().Draw(t, "plain")
		s := drawSlowFair(t, plain)
		l := fairLedger(t)
		s.read(t, l)
		paths := s.leaves()
		if s.queueOrNil("root.users") != nil {
			paths = append(paths, "root.users.new1", "root.users.new2")
		}
		type one struct {
			path  string
			app   *slowFairApp
			short []ledger.Shortfall
		}
		var granted, refused []one
		for range rapid.IntRange(1, 12).Draw(t, "requests") {
			a := one{path: rapid.SampledFrom(paths).Draw(t, "queue"), app: &slowFairApp{master: s.master(t)}}
			err := ask(l, a.path, a.app.master)
			short, is := errors.AsType[*ledger.InsufficientError](err)
			switch {
			case err == nil:
				granted = append(granted, a)
			case is && slices.ContainsFunc(short.Shortfalls, func(s ledger.Shortfall) bool { return !resource.OfMasters(s.Dimension) }):
			case is: // for its master only
				a.short = slices.DeleteFunc(short.Shortfalls, func(s ledger.Shortfall) bool {
					return s.Note == ledger.NoteHeld || estimated(l, a.path, s.Dimension)
				})
				refused = append(refused, a)
			default:
				t.Fatal(err)
			}
		}
		for _, at := range rapid.Permutation(indices(len(granted))).Draw(t, "they come in this order") {
			q := s.queue(granted[at].path)
			q.apps = append(q.apps, granted[at].app)
			if rapid.Bool().Draw(t, "and it is tried at once") {
				s.settle()
			}
		}
		s.settle()
		for _, a := range granted {
			if q := s.queue(a.path); !a.app.started {
				t.Fatalf("%v is granted in %s and does not start: masters have %v of %v, share %v, %v is free", a.app.master, a.path, q.masters, s.limit(q), q.fair, s.free())
			}
		}
		for _, a := range refused {
			q := s.queue(a.path)
			q.apps = append(q.apps, a.app)
			s.update()
			if len(a.short) > 0 && s.try(q, a.app) {
				t.Fatalf("%v is refused in %s and starts: %+v", a.app.master, a.path, a.short)
			}
			q.apps = q.apps[:len(q.apps)-1]
		}
	})
}

// estimated reports whether the limit of a queue is marked as estimated.
func estimated(l *ledger.Ledger, path, dimension string) bool {
	q, err := l.Queue(resource.Address{Kind: fairCluster.Kind, Cluster: fairCluster.Cluster, Path: path})
	return err != nil || slices.Contains(q.Account.Estimated, dimension)
}

func indices(n int) []int {
	list := make([]int, n)
	for i := range list {
		list[i] = i
	}
	return list
}

func (s *slowFair) queueOrNil(path string) *slowFairQueue {
	for _, q := range s.all(s.root) {
		if q.path == path {
			return q
		}
	}
	return nil
}
