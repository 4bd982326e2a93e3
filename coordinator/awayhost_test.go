package coordinator

import (
	"testing"
	"time"

	"connectrpc.com/connect"

	bursarv1 "github.com/bursar/bursar/proto/bursar/v1"
)

// The agent of a suspect host is not waited for as long as one that restarts: the caller hears
// since when nothing was heard of it.
func TestASuspectHostIsToldAtOnce(t *testing.T) {
	c := newAuthServer(t, func(config *Config) { config.Times.Interval = 100 * time.Millisecond })
	c.addHosts(t)
	agents := map[string]*orderedAgent{"h1": c.attach(t, "agent1", "h1"), "h2": c.attach(t, "agent2", "h2")}
	alice := c.visit(t, "alice")
	answer := alice.begin(t, startRequest("job-1"))
	var order *bursarv1.LaunchOrder
	g := agents["h1"]
	select {
	case order = <-g.orders:
	case order = <-agents["h2"].orders:
		g = agents["h2"]
	}
	if _, err := g.started(t, order, 100); err != nil {
		t.Fatal(err)
	}
	g.begun(t, order)
	a, err := answer()
	if err != nil {
		t.Fatal(err)
	}
	for suspect := false; !suspect; { // nobody reports for it
		h, err := c.visit(t, "ops").hosts.Get(t.Context(), &bursarv1.HostServiceGetRequest{Id: g.host})
		if err != nil {
			t.Fatal(err)
		}
		suspect = h.GetHost().GetState() == bursarv1.HostState_HOST_STATE_SUSPECT
	}
	words := "host " + g.host + " is suspect: its agent was last heard of "
	began := time.Now()
	_, err = alice.engines.Signal(t.Context(), &bursarv1.SignalRequest{Id: a.GetId(), Signal: bursarv1.Signal_SIGNAL_USR1})
	expect(t, "a signal", err, connect.CodeDeadlineExceeded, words)
	stream, err := alice.engines.Logs(t.Context(), &bursarv1.LogsRequest{Id: a.GetId(), Stream: bursarv1.OutputStream_OUTPUT_STREAM_STDOUT})
	if err != nil {
		t.Fatal(err)
	}
	if stream.Receive() {
		t.Errorf("it has output: %v", stream.Msg())
	}
	expect(t, "its output", stream.Err(), connect.CodeDeadlineExceeded, words)
	_ = stream.Close()
	if took := time.Since(began); took > 3*returnPatience {
		t.Errorf("both took %s", took)
	}
	if len(g.signaled) > 0 {
		t.Error("the signal was sent")
	}

	// One that is back within the patience takes it.
	sent := make(chan error, 1)
	go func() {
		_, err := alice.engines.Signal(t.Context(), &bursarv1.SignalRequest{Id: a.GetId(), Signal: bursarv1.Signal_SIGNAL_USR1})
		sent <- err
	}()
	for done := false; !done; {
		g.report(t, func(r *bursarv1.SyncRequest) {
			r.Engines = []*bursarv1.EngineReport{{AllocationId: a.GetId()}}
		})
		select {
		case err := <-sent:
			if done = true; err != nil {
				t.Errorf("after its return: %v", err)
			}
		case <-time.After(50 * time.Millisecond):
		}
	}
}
