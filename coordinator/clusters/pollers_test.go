package clusters

import (
	"context"
	"errors"
	"log/slog"
	"testing"
	"testing/synctest"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/bursar/bursar/coordinator/commit"
	"github.com/bursar/bursar/coordinator/ledger"
	"github.com/bursar/bursar/coordinator/store/storetest"
	"github.com/bursar/bursar/providers"
	"github.com/bursar/bursar/test/fakecluster"
	"github.com/bursar/bursar/test/proc"
)

// pollersRig is a loop whose clusters are read, in a synctest bubble.
type pollersRig struct {
	*loopRig

	pollers *Pollers
	kind    *fakecluster.Kind
	log     *proc.Output
	end     context.CancelFunc
	ended   chan struct{}
}

// prod is the cluster of these tests.
var prod = ledger.ClusterName{Kind: "fake", Cluster: "prod"}

// newPollersRig runs a loop and its pollers, and leads.
func newPollersRig(t *testing.T, random func() float64) *pollersRig {
	t.Helper()
	w := &pollersRig{loopRig: newLoopRig(t, storetest.NewMemory("test").Open(), nil), kind: fakecluster.New(), log: &proc.Output{}, ended: make(chan struct{})}
	w.pollers = New(w.Loop, providers.Kinds{w.kind}, Credentials(t.TempDir()), random,
		NewMetrics(prometheus.NewRegistry()), slog.New(slog.NewTextHandler(w.log, nil)))
	w.ClustersChanged = w.pollers.Changed
	lead(t, w.Loop)
	var ctx context.Context
	ctx, w.end = context.WithCancel(context.Background())
	go func() {
		defer close(w.ended)
		w.pollers.Run(ctx)
	}()
	return w
}

func (w *pollersRig) close() {
	w.end()
	<-w.ended
	w.loopRig.close()
	if n := w.kind.ProvidersOpen(); n != 0 {
		w.t.Errorf("%d providers are still open", n)
	}
}

// put puts a provider, of the cluster at the address "here" unless settings name another.
func (w *pollersRig) put(name ledger.ClusterName, settings ...string) {
	w.t.Helper()
	record := ledger.ProviderRecord{ClusterName: name, Settings: map[string]string{"address": "here"}}
	for i := 0; i < len(settings); i += 2 {
		record.Settings[settings[i]] = settings[i+1]
	}
	if err := w.ChangeProvider(w.t.Context(), name, func(l *ledger.Ledger, now ledger.Instant) error { return l.PutProvider(now, record) }); err != nil {
		w.t.Fatal(err)
	}
}

// cluster returns the ledger's state of the cluster.
func (w *pollersRig) cluster() ledger.ClusterInfo {
	w.t.Helper()
	info, err := commit.Decide(w.t.Context(), w.Loop, func(l *ledger.Ledger, _ ledger.Instant) (ledger.ClusterInfo, error) {
		for _, c := range l.Clusters() {
			if c.ClusterName == prod {
				return c, nil
			}
		}
		return ledger.ClusterInfo{}, errors.New("no such cluster")
	})
	if err != nil {
		w.t.Fatal(err)
	}
	return info
}

// passTime advances the time.
func passTime(d time.Duration) {
	time.Sleep(d)
	synctest.Wait()
}

// gaps returns the times between readings.
func gaps(reads []time.Time) (list []time.Duration) {
	for i := 1; i < len(reads); i++ {
		list = append(list, reads[i].Sub(reads[i-1]))
	}
	return list
}

func always(n float64) func() float64 { return func() float64 { return n } }

func TestChangesOfProvidersTakeEffectAtOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newPollersRig(t, always(0.5))
		defer w.close()
		here, there := w.kind.Cluster("here"), w.kind.Cluster("there")
		there.With(func(c *fakecluster.Cluster) { c.Takes = 400 * time.Millisecond })
		w.put(prod)
		passTime(time.Millisecond)
		w.put(prod, "address", "there", "interval", "2s")
		if c := w.cluster(); c.Known {
			t.Errorf("what was read here is taken for what is there: %+v", c)
		}
		passTime(5 * time.Second)
		if here, there := len(here.Times()), len(there.Times()); here != 1 || there != 3 {
			t.Errorf("read here %d times, there %d times", here, there)
		}
		if !w.cluster().Known || w.kind.ProvidersOpen() != 1 {
			t.Errorf("%+v, %d open", w.cluster(), w.kind.ProvidersOpen())
		}
		if err := w.ChangeProvider(t.Context(), prod, func(l *ledger.Ledger, now ledger.Instant) error { return l.DeleteProvider(now, prod) }); err != nil {
			t.Fatal(err)
		}
		passTime(time.Minute)
		if n := len(there.Times()); n != 0 || w.kind.ProvidersOpen() != 0 {
			t.Errorf("read %d times, %d open", n, w.kind.ProvidersOpen())
		}
	})
}

// A poller that is still busy when its provider changes is awaited, and its result is dropped.
func TestWhatIsReadForAnEarlierProviderChangesNothing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newPollersRig(t, always(0.5))
		defer w.close()
		here := w.kind.Cluster("here")
		w.put(prod)
		passTime(time.Millisecond)
		list, err := w.Assignments(t.Context())
		if err != nil || len(list) != 1 {
			t.Fatalf("%v, %v", list, err)
		}
		w.put(prod, "settle", "3s")
		err = w.WhileAssigned(t.Context(), &list[0], func(*ledger.Ledger, ledger.Instant) error {
			t.Error("it is heard")
			return nil
		})
		if !errors.Is(err, commit.ErrNotAssigned) {
			t.Errorf("got %v", err)
		}
		here.With(func(c *fakecluster.Cluster) { c.Takes = 3 * time.Second })
		for range 5 {
			w.put(prod, "settle", "4s")
			w.put(prod, "settle", "5s")
			passTime(time.Second)
		}
		passTime(time.Minute)
		here.With(func(c *fakecluster.Cluster) {
			if c.Twice {
				t.Error("two have read at once")
			}
		})
	})
}

func TestOnlyWhoLeadsReads(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newPollersRig(t, always(0.5))
		defer w.close()
		here := w.kind.Cluster("here")
		w.put(prod)
		passTime(time.Second)
		here.With(func(c *fakecluster.Cluster) { c.Takes = 3 * time.Second })
		passTime(5 * time.Second) // at the next reading
		before := w.kind.ProvidersOpen()
		w.StepDown()
		synctest.Wait()
		if after := w.kind.ProvidersOpen(); before != 1 || after != 0 {
			t.Errorf("%d providers are open before, %d after", before, after)
		}
		here.Times()
		passTime(time.Minute)
		if n := len(here.Times()); n != 0 || len(w.pollers.Warnings()) != 0 {
			t.Errorf("read %d times by who does not lead; %v", n, w.pollers.Warnings())
		}
		term := w.Lead(0)
		<-term.Began
		passTime(time.Second)
		if n := len(here.Times()); n != 1 {
			t.Errorf("read %d times by the next leadership", n)
		}
	})
}

// A bubble does not end before its goroutines.
func TestPollersEndWhateverTheyAreAt(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newPollersRig(t, always(0.5))
		w.kind.Cluster("here").With(func(c *fakecluster.Cluster) { c.Hangs = true })
		w.put(prod)
		w.put(ledger.ClusterName{Kind: "fake", Cluster: "other"}, "address", "there")
		passTime(time.Second)
		w.close()
	})
}

// fileOnly is a kind of clusters that only a file may name.
type fileOnly struct{ *fakecluster.Kind }

func (fileOnly) FileOnly() {}

func TestKindsThatAreForFilesAreOpenedFromFilesAlone(t *testing.T) {
	kind := fileOnly{fakecluster.New()}
	p := &Pollers{Kinds: providers.Kinds{kind}, Credentials: Credentials(t.TempDir())}
	record := ledger.ProviderRecord{ClusterName: prod, Settings: map[string]string{"address": "here"}, Source: ledger.SourceAPI}
	if _, _, err := p.Open(&record); err == nil || kind.ProvidersOpen() != 0 {
		t.Errorf("from the API: %v, %d are open", err, kind.ProvidersOpen())
	}
	record.Source = ledger.SourceFilePrefix + "/etc/bursar/providers.yaml"
	opened, _, err := p.Open(&record)
	if err != nil {
		t.Fatal(err)
	}
	if err := opened.Close(); err != nil {
		t.Error(err)
	}
}
