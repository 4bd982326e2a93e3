package ready

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/bursar/bursar/agent/keeper"
	"github.com/bursar/bursar/agent/launch"
	"github.com/bursar/bursar/agent/process"
	bursarv1 "github.com/bursar/bursar/proto/bursar/v1"
	"github.com/bursar/bursar/providers/host"
)

// played is a Watcher whose engines have records that the test writes.
type played struct {
	*Watcher

	t   *testing.T
	dir string
}

func play(t *testing.T) *played {
	t.Helper()
	dir := t.TempDir()
	return &played{New(Deps{Proc: "/proc", Records: launch.Records(dir)}), t, dir}
}

// note appends to the record of an engine.
func (p *played) note(id string, l keeper.Looked) {
	p.t.Helper()
	line, err := keeper.EncodeLooked(l)
	if err != nil {
		p.t.Fatal(err)
	}
	p.write(id, line)
}

func (p *played) write(id string, content []byte) {
	p.t.Helper()
	if err := os.MkdirAll(filepath.Join(p.dir, id), 0o700); err != nil {
		p.t.Fatal(err)
	}
	file, err := os.OpenFile(filepath.Join(p.dir, id, "record"), os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	if err == nil {
		_, err = file.Write(content)
		err = errors.Join(err, file.Close())
	}
	if err != nil {
		p.t.Fatal(err)
	}
}

func TestATimeCountsFromTheStartOfTheEngine(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := play(t)
		began := time.Now()
		p.note("e1", keeper.Looked{Reason: "there is no file /x", Time: began})
		// The agent was away for 50 s.
		results := p.Watch(t.Context(), Engine{ID: "e1", Begun: began.Add(-50 * time.Second)}, Check{What: "file", Within: time.Minute})
		got := <-results
		want := Result{bursarv1.Phase_PHASE_FAILED, began.Add(10 * time.Second), "not ready within 1m0s: there is no file /x", false}
		if got != want {
			t.Errorf("%+v: want %+v", got, want)
		}
		p.Wait()
	})
}

func TestAReadyEngineIsFoundSoon(t *testing.T) {
	for _, after := range []time.Duration{0, 50 * time.Millisecond, 2 * time.Second, 3 * time.Minute} {
		t.Run(after.String(), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				p := play(t)
				began := time.Now()
				results := p.Watch(t.Context(), Engine{ID: "e1", Begun: began}, Check{What: "line", Within: time.Hour})
				time.Sleep(after) // in the bubble
				p.note("e1", keeper.Looked{Ready: true, Time: time.Now()})
				got := <-results
				if got.Phase != bursarv1.Phase_PHASE_READY || !got.Time.Equal(began.Add(after)) {
					t.Errorf("%+v", got)
				}
				if late := time.Since(began) - after; late > max(after/share, 100*time.Millisecond) || late > defaultInterval {
					t.Errorf("found %s late", late)
				}
				p.Wait()
			})
		})
	}
}

// share is look's.
const share = 8

// The user of the engine may write anything into the record.
func TestAForgedRecordIsBounded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := play(t)
		began := time.Now()
		p.write("e1", []byte("{\"looked\":{\"ready\":1}}\nnonsense\n\x00\n{\"looked\":null}\n"))
		p.note("e1", keeper.Looked{Reason: "\x1b[2J" + strings.Repeat("x", 1<<16), Time: began})
		p.write("e1", []byte(`{"looked":{"ready":true,"time":"2001-01-01T00:00:00Z"`)) // not whole
		results := p.Watch(t.Context(), Engine{ID: "e1", Begun: began}, Check{What: "line", Within: time.Second})
		if got := <-results; got.Phase != bursarv1.Phase_PHASE_FAILED || len(got.Reason) > 600 || strings.Contains(got.Reason, "\x1b") {
			t.Errorf("%d bytes: %.100q", len(got.Reason), got.Reason)
		}
		p.write("e1", []byte("}}\n"))
		results = p.Watch(t.Context(), Engine{ID: "e1", Begun: began}, Check{What: "line", Within: time.Hour})
		if got := <-results; got.Phase != bursarv1.Phase_PHASE_READY || got.Time.Before(began) {
			t.Errorf("a time before its start: %+v", got)
		}
		p.Wait()
	})
}

func TestAWatchThatIsGivenUpHasNoResult(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := play(t)
		ctx, cancel := context.WithCancel(t.Context())
		results := p.Watch(ctx, Engine{ID: "e1", Begun: time.Now()}, Check{What: "file", Within: time.Hour})
		time.Sleep(10 * time.Second) // in the bubble
		cancel()
		if got, sent := <-results; sent {
			t.Errorf("%+v", got)
		}
		p.Wait()
	})
}

func TestTheEndThatTheAgentTells(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := play(t)
		ended := make(chan struct{})
		began := time.Now()
		p.note("e1", keeper.Looked{Reason: "the command exits with 1", Time: began})
		results := p.Watch(t.Context(), Engine{ID: "e1", Begun: began, Ended: ended}, Check{What: "command", Within: time.Hour})
		time.Sleep(10 * time.Second) // in the bubble
		close(ended)
		got := <-results
		want := Result{bursarv1.Phase_PHASE_FAILED, began.Add(10 * time.Second), "the engine ended before it was ready: the command exits with 1", true}
		if got != want {
			t.Errorf("%+v: want %+v", got, want)
		}
		// It was ready just before.
		p.note("e2", keeper.Looked{Ready: true, Time: time.Now()})
		if got := <-p.Watch(t.Context(), Engine{ID: "e2", Begun: began, Ended: ended}, Check{What: "command", Within: time.Hour}); got.Phase != bursarv1.Phase_PHASE_READY {
			t.Errorf("%+v", got)
		}
		p.Wait()
	})
}

// self is this process as an engine that listens on nothing.
func self(t testing.TB) process.Ref {
	t.Helper()
	meter, err := host.NewMeter(host.Options{})
	if err != nil {
		t.Fatal(err)
	}
	found, err := meter.Identify(int32(os.Getpid()))
	if err != nil {
		t.Fatal(err)
	}
	return process.Ref{PID: found.PID, StartTime: found.StartTime}
}

// All share the tables of sockets, and their processes are listed rarely.
func TestTwoHundredEnginesThatWaitCostLittle(t *testing.T) {
	const (
		engines = 200
		within  = time.Minute
		seconds = int64(within / time.Second)
	)
	synctest.Test(t, func(t *testing.T) {
		p := play(t)
		root := self(t)
		var all []<-chan Result
		for i := range engines {
			spec := Spec{Port: int32(1 + i), Within: within}
			all = append(all, p.Watch(t.Context(), Engine{ID: fmt.Sprintf("e%d", i), Root: root, Begun: time.Now()}, spec.Stored()))
		}
		for _, results := range all {
			if got := <-results; got.Phase != bursarv1.Phase_PHASE_FAILED || !strings.Contains(got.Reason, "nothing listens on port") {
				t.Errorf("%+v", got)
			}
		}
		p.Wait()
		tables, lists, files := p.counts.tables.Load(), p.counts.lists.Load(), p.counts.descriptors.Load()
		t.Logf("%d engines, each second: %d tables, %d lists of processes, %d open files", engines, tables/seconds, lists/seconds, files/seconds)
		if most := 2 * seconds * int64(time.Second/freshFor); tables > most {
			t.Errorf("%d tables were read: want at most %d", tables, most)
		}
		if most := engines * seconds / 2; lists > most+engines {
			t.Errorf("processes were listed %d times: want at most %d", lists, most)
		}
		if files > 0 {
			t.Errorf("%d open files were looked at: no port is listened on", files)
		}
	})
}

// BenchmarkALookAtAPort is one look at a port on which nothing listens, as it is once a second for
// each engine that waits.
func BenchmarkALookAtAPort(b *testing.B) {
	w := New(Deps{Proc: "/proc"})
	root := self(b)
	probes := make([]*portProbe, 200)
	for i := range probes {
		probes[i] = &portProbe{watcher: w, engine: Engine{Root: root}, port: int32(1 + i)}
	}
	for i := 0; b.Loop(); i++ {
		if found, err := probes[i%len(probes)].look(b.Context()); err != nil || found.ready {
			b.Fatal(found, err)
		}
	}
}
