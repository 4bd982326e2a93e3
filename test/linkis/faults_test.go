//go:build linux

package linkis

import (
	"context"
	"fmt"
	"net"
	"net/http"
	"os/exec"
	"strings"
	"sync"
	"testing"
	"time"

	bursarv1 "github.com/bursar/bursar/proto/bursar/v1"
	"github.com/bursar/bursar/test/proc"
)

// rowOf is the row of an engine with a pid.
const rowOf = "SELECT instance FROM linkis_cg_manager_service_instance WHERE name = 'linkis-cg-engineconn' AND identifier = ?"

// threeAtOnce: three creations while the row of a dead engine stands. Stock Linkis gives all of
// them the port of the dead one, forgets them, and one lives on without a row.
func (r *running) threeAtOnce(t *testing.T) {
	e := r.mustCreate("256m")
	before, err := r.live()
	if err != nil {
		t.Fatal(err)
	}
	r.kill(e.pid)
	if rows := r.db.rows(rowOf, fmt.Sprint(e.pid)); len(rows) != 1 {
		t.Fatalf("the dead engine's row does not stand: %v", rows)
	}
	var together sync.WaitGroup
	made, errs := make([]engine, 3), make([]error, 3)
	for i := range errs {
		together.Go(func() { made[i], errs[i] = r.create("256m") })
	}
	together.Wait()
	t.Logf("creations: %v %v", made, errs)
	instances := make(map[string]bool)
	for i, err := range errs {
		if err != nil {
			t.Errorf("creation %d: %v", i, err)
		}
		instances[made[i].instance] = true
	}
	if len(instances) != len(made) || instances[e.instance] {
		t.Errorf("want three addresses, and not that of the dead engine, %s: %v", e.instance, instances)
	}
	eventually(t, "every engine that lives has an allocation with its pid", r.agree)
	if after, err := r.live(); err != nil || len(after) != len(before)-1+len(made) {
		t.Errorf("%d allocations, one engine was killed and %d were created, and now there are %d: %v", len(before), len(made), len(after), err)
	}
	for _, h := range r.hosts {
		if now, err := r.booked(h); err != nil || now > r.memory {
			t.Errorf("%s: %d booked, %v", h.name, now, err)
		}
	}
	proc.Always(t, 5*time.Second, time.Second, "it stays so", r.agree)
	r.audit()
}

// pidIsAnothers: Linkis asks for the end of engines by a pid that is another process's. Stock
// Linkis kills that one.
func (r *running) pidIsAnothers(t *testing.T) {
	for _, c := range []struct {
		name string
		dead bool
	}{{"of an engine that has ended", true}, {"of an engine that runs with another pid", false}} {
		t.Run(c.name, func(t *testing.T) {
			other := exec.Command("sleep", "600")
			proc.StartGroup(t, other)
			e := r.mustCreate("300m")
			ecm := r.hosts[0].ecm
			for _, h := range r.hosts {
				if strings.HasPrefix(e.instance, h.name+":") {
					ecm = h.ecm
				}
			}
			ecm.Output.Forget()
			result, err := r.db.ExecContext(t.Context(), "UPDATE linkis_cg_manager_service_instance SET identifier = ? WHERE instance = ?", fmt.Sprint(other.Process.Pid), e.instance)
			if err != nil {
				t.Fatal(err)
			}
			if n, err := result.RowsAffected(); err != nil || n != 1 {
				t.Fatalf("the engine's row is not there: %d %v", n, err)
			}
			if c.dead {
				r.kill(e.pid)
			}
			m, err := r.rest(r.manager, http.MethodPost, "linkisManager/rm/enginekill", []map[string]string{{"engineInstance": e.instance, "applicationName": "linkis-cg-engineconn"}}, time.Minute)
			if err != nil || m.Status != 0 {
				t.Errorf("enginekill: %v %v", m, err)
			}
			want := fmt.Sprintf("%s: pid %d is no engine there", e.instance, other.Process.Pid)
			eventually(t, "the ECM was asked for the end of the wrong pid", func() error {
				if !strings.Contains(ecm.Output.String(), want) {
					return fmt.Errorf("no %q in %s", want, ecm.Output.Tail())
				}
				return nil
			})
			eventually(t, "the engine is gone, its row and its allocation", func() error {
				if proc.Alive(e.pid) {
					return fmt.Errorf("%d lives", e.pid)
				}
				if r.allocation(e.ticket).GetState() != bursarv1.AllocationState_ALLOCATION_STATE_RELEASED {
					return fmt.Errorf("%v", r.allocation(e.ticket))
				}
				return r.noRows("SELECT instance FROM linkis_cg_manager_service_instance WHERE instance = '" + e.instance + "'")
			})
			proc.Always(t, 3*time.Second, time.Second, "the other process lives", func() error {
				if !proc.Alive(other.Process.Pid) {
					return fmt.Errorf("%d has ended", other.Process.Pid)
				}
				return nil
			})
		})
	}
}

// coordinatorIsKilled: engines go on; what is asked for meanwhile is granted once.
func (r *running) coordinatorIsKilled(t *testing.T) {
	r.mustCreate("256m")
	before := r.byTicket()
	r.coordinator.Kill()
	asked := r.instead(t)
	made := make(chan error, 1)
	var e engine
	go func() {
		var err error
		e, err = r.create("256m")
		made <- err
	}()
	asked("AllocationService/Allocate")
	r.coordinator.Start()
	r.awaitHosts(len(r.hosts))
	if err := <-made; err != nil {
		t.Fatalf("a creation while the coordinator was away: %v", err)
	}
	eventually(t, "processes, allocations and rows agree", r.agree)
	after := r.byTicket()
	for ticket, state := range before {
		if after[ticket] != state {
			t.Errorf("%s: before %q, after %q", ticket, state, after[ticket])
		}
	}
	if after[e.ticket] == "" || len(after) != len(before)+1 {
		t.Errorf("want one more, %s: before %v, after %v", e.ticket, before, after)
	}
	r.audit()
}

// byTicket is what live allocations are, by their ids.
func (r *running) byTicket() map[string]string {
	r.t.Helper()
	list, err := r.live()
	if err != nil {
		r.t.Fatal(err)
	}
	all := make(map[string]string)
	for _, a := range list {
		all[a.GetId()] = fmt.Sprint(a.GetState(), " pid ", a.GetProcess().GetPid(), " on ", a.GetHostId())
	}
	return all
}

// instead listens at the coordinator's address and answers nobody. The returned function waits
// until a procedure was called, and ends it.
func (r *running) instead(t *testing.T) (asked func(procedure string)) {
	t.Helper()
	listener, err := new(net.ListenConfig).Listen(t.Context(), "tcp", r.coordinatorAddress())
	if err != nil {
		t.Fatal(err)
	}
	calls := make(chan string, 1000)
	server := &http.Server{
		ReadHeaderTimeout: time.Second,
		Handler: http.HandlerFunc(func(_ http.ResponseWriter, request *http.Request) {
			select {
			case calls <- request.URL.Path:
			default:
			}
			panic(http.ErrAbortHandler)
		}),
	}
	go func() { _ = server.Serve(listener) }()
	t.Cleanup(func() { _ = server.Close() })
	return func(procedure string) {
		t.Helper()
		ctx, cancel := context.WithTimeout(t.Context(), 30*time.Second)
		defer cancel()
		for {
			select {
			case call := <-calls:
				if strings.HasSuffix(call, procedure) {
					_ = server.Close()
					return
				}
			case <-ctx.Done():
				t.Fatalf("nobody called %s", procedure)
			}
		}
	}
}
