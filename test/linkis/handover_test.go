//go:build linux

package linkis

import (
	"encoding/json"
	"fmt"
	"maps"
	"strings"
	"testing"
	"time"

	"github.com/bursar/bursar/test/proc"
)

// leaving is a Linkis that stops using Bursar while engines run.
type leaving struct {
	*running

	h *host
}

// TestHandOver leaves Bursar as docs/linkis.md says: the ECM first, then the manager. The ECM
// registers less than its host has. Stock Linkis then knows of every engine that runs, also after
// an ECM was started again.
func TestHandOver(t *testing.T) {
	r := newRunning(t, options{hosts: 1, memory: 4 << 30})
	r.memory = hostMemory // of what is started from now on
	l := &leaving{running: r, h: r.hosts[0]}
	l.startAdaptedECM(l.h, nil)
	l.run(
		t,
		step{"Bursar decides", l.bursarDecides},
		step{"the ECM is Linkis's own again", l.ecmIsStock},
		step{"the manager hands over", l.handsOver},
		step{"stock Linkis goes on", l.stockGoesOn},
	)
}

// load is a part of a row of Linkis's tables.
type load struct {
	Memory    int64 `json:"memory"`
	Cores     int   `json:"cores"`
	Instances int   `json:"instances"`
}

func (a load) minus(b load) load {
	return load{a.Memory - b.Memory, a.Cores - b.Cores, a.Instances - b.Instances}
}

// registered is what the ECM says that it has.
func (l *leaving) registered() load { return load{l.memory, hostCores, 64} }

// row is what Linkis's table says of the ECM.
func (l *leaving) row() (row map[string]load, err error) {
	const query = "SELECT s.max_resource, s.used_resource, s.locked_resource, s.left_resource FROM linkis_cg_manager_label l" +
		" JOIN linkis_cg_manager_label_resource lr ON lr.label_id = l.id JOIN linkis_cg_manager_linkis_resources s ON s.id = lr.resource_id" +
		" WHERE l.label_key = 'emInstance'"
	rows, err := l.db.query(query)
	if err != nil {
		return nil, err
	}
	if len(rows) != 1 {
		return nil, fmt.Errorf("rows of ECMs: %v: want one", rows)
	}
	row = make(map[string]load)
	columns := json.NewDecoder(strings.NewReader(rows[0]))
	for _, column := range []string{"max", "used", "locked", "left"} {
		var part load
		if err := columns.Decode(&part); err != nil {
			return nil, fmt.Errorf("%s: %w", rows[0], err)
		}
		row[column] = part
	}
	return row, nil
}

// has compares the row with the engines that run.
func (l *leaving) has(size load) error {
	engines := len(l.engineProcesses())
	used := load{int64(engines) * 256 << 20, engines, engines}
	want := map[string]load{"max": size, "used": used, "locked": {}, "left": size.minus(used)}
	row, err := l.row()
	if err == nil && !maps.Equal(row, want) {
		err = fmt.Errorf("the ECM's row is %v: want %v with %d engines", row, want, engines)
	}
	return err
}

// restartECM kills the ECM, whose engines go on, and starts it with a mode. It returns when the
// manager has its registration.
func (l *leaving) restartECM(m string) {
	l.t.Helper()
	engines := len(l.engineProcesses())
	l.h.ecm.Kill()
	l.manager.Output.Forget()
	l.h.ecm.set(map[string]string{"linkis.bursar.mode": m})
	l.h.ecm.Start()
	l.h.ecm.listed()
	eventually(l.t, "the ECM registers", func() error {
		said := l.manager.Output.String()
		if !strings.Contains(said, " is on Bursar's host ") && !strings.Contains(said, "skip register resource") && !strings.Contains(said, "need to register resource") {
			return fmt.Errorf("the manager has not said that:\n%s", l.manager.Output.Tail())
		}
		return nil
	})
	if now := len(l.engineProcesses()); now != engines || now == 0 {
		l.t.Fatalf("%d engines run after the ECM was started again: want the %d from before", now, engines)
	}
}

// another creates an engine, once the ECM counts as healthy.
func (l *leaving) another() {
	l.t.Helper()
	before := len(l.engineProcesses())
	eventually(l.t, "an engine is created", func() error {
		_, err := l.create("256m")
		if err != nil && !strings.Contains(err.Error(), "healthy") && !strings.Contains(err.Error(), "not found") {
			l.t.Fatal(err)
		}
		return err
	})
	if after := len(l.engineProcesses()); after != before+1 {
		l.t.Fatalf("%d engines run: want %d", after, before+1)
	}
}

func (l *leaving) bursarDecides(t *testing.T) {
	l.mustCreate("256m")
	l.mustCreate("256m")
	eventually(t, "the row has the two engines, and max is the host's", func() error {
		row, err := l.row()
		if err == nil && (row["max"].Memory != 4<<30 || row["used"].Instances != 2) {
			err = fmt.Errorf("%v", row)
		}
		return err
	})
}

// ecmIsStock: while the manager still decides, it loses no engine, and starts one at such an ECM.
func (l *leaving) ecmIsStock(t *testing.T) {
	l.restartECM("off")
	l.another()
	eventually(t, "the row has the three engines", func() error {
		row, err := l.row()
		if err == nil && row["used"].Instances != 3 {
			err = fmt.Errorf("%v", row)
		}
		return err
	})
}

func (l *leaving) handsOver(t *testing.T) {
	l.manager.Stop(patience)
	if err := l.has(l.registered()); err != nil {
		t.Error(err)
	}
}

// stockGoesOn also if the ECM is started again, which stock answers with a new row if max is not
// what the ECM registers.
func (l *leaving) stockGoesOn(t *testing.T) {
	l.startManager(stock, nil)
	l.manager.listed()
	l.another()
	eventually(t, "stock counts on", func() error { return l.has(l.registered()) })
	l.restartECM("off")
	proc.Always(t, 3*time.Second, pollEvery, "the row keeps the engines", func() error { return l.has(l.registered()) })
}
