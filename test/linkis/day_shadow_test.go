//go:build linux

package linkis

import (
	"fmt"
	"maps"
	"slices"
	"testing"

	"github.com/bursar/bursar/test/proc"
)

// counts are those of shadow mode's report.
type counts struct {
	BothGrant, BothRefuse, StockAloneGrants, BursarAloneGrants, NotCompared int
}

// shadowed is a Linkis whose manager is in shadow mode, and what it must have counted so far.
type shadowed struct {
	*smoke

	want    counts
	tickets []string
}

// TestDayInShadow plays TestDay's day with stock Linkis and in shadow mode. Stock decides there, so
// that no answer of Linkis differs. Then it goes on with requests about which stock and Bursar do
// not agree. What the report counts is what the day did.
func TestDayInShadow(t *testing.T) {
	w := newWorld(t, options{hosts: 1})
	w.startManager(stock, nil)
	w.manager.listed()
	w.startECM(w.hosts[0])
	plain := w.day()
	w.db.forgetEngines()
	w.startManager(shadow, nil)
	s := &shadowed{smoke: &smoke{world: w, h: w.hosts[0]}}
	s.counted("nothing was asked for")
	for when, said := range w.day() {
		for _, field := range slices.Sorted(maps.Keys(said)) {
			if said[field] != plain[when][field] {
				t.Errorf("%s: %s: stock %q, in shadow mode %q", when, field, plain[when][field], said[field])
			}
		}
		if len(said) != len(plain[when]) || len(said) < 20 {
			t.Errorf("%s: %d fields, with stock %d", when, len(said), len(plain[when]))
		}
	}
	s.want.BothGrant = 2
	s.counted("two engines were asked for, used and given back")
	s.awaitNothing("after the day")

	s.asks(values{"memory": 3 << 30}, "refused", &s.want.BothRefuse)
	s.counted("one was too large for the ECM")

	s.setQuotas("quotas:\n  - selector: {user: \"few\"}\n    limit: {instances: 1}\n")
	s.asks(values{"memory": 64 << 20, "user": "few"}, "ticket", &s.want.BothGrant)
	s.asks(values{"memory": 64 << 20, "user": "few"}, "ticket", &s.want.StockAloneGrants)
	s.counted("a quota that stock does not have was full")

	// Resources that stock has leaked, as an engine that it has forgotten does.
	row := `linkis_cg_manager_linkis_resources r JOIN linkis_cg_manager_label_resource lr ON lr.resource_id = r.id
		JOIN linkis_cg_manager_label l ON l.id = lr.label_id`
	whose := " WHERE l.label_key = 'emInstance' AND l.label_value LIKE '%" + s.h.instance() + "%'"
	left := s.db.rows("SELECT r.left_resource FROM " + row + whose)
	if len(left) != 1 {
		t.Fatalf("want one row of the ECM: %v", left)
	}
	s.db.execute("UPDATE " + row + " SET r.left_resource = JSON_SET(r.left_resource, '$.memory', 0)" + whose)
	s.asks(values{"memory": 64 << 20, "user": "many"}, "refused", &s.want.BursarAloneGrants)
	s.db.execute("UPDATE "+row+" SET r.left_resource = ?"+whose, left[0])
	s.asks(values{"memory": 64 << 20, "user": "many"}, "ticket", &s.want.BothGrant)
	s.counted("stock had leaked what the ECM has, for a while")

	s.coordinator.Kill()
	s.asks(values{"memory": 64 << 20, "user": "away"}, "ticket", &s.want.NotCompared)
	s.counted("Bursar was away")
	s.coordinator.Start()
	s.awaitHosts(1)
	for _, ticket := range s.tickets {
		s.ask("release", values{"ticket": ticket, "ecm": s.h.instance()})
	}
	s.awaitNothing("after the release")
	s.counted("all was given back")
}

// asks requests an engine, must get that answer of stock, and adds one to a count.
func (s *shadowed) asks(query values, answer string, count *int) {
	s.t.Helper()
	query["ecm"], query["wait"] = s.h.instance(), 0
	a := s.ask("request", query)
	if a.text(answer) == "" {
		s.t.Fatalf("request %v: want %q of stock, got %v", query, answer, a)
	}
	if ticket := a.text("ticket"); ticket != "" {
		s.tickets = append(s.tickets, ticket)
	}
	*count++
}

// counted waits until the report, which comes after the answer, has the counts that it must have.
func (s *shadowed) counted(after string) {
	s.t.Helper()
	differs := func() error {
		var got counts
		if err := s.call("shadow", nil, &got); err != nil {
			return err
		}
		if got != s.want {
			return fmt.Errorf("the report has %+v, want %+v", got, s.want)
		}
		return nil
	}
	eventually(s.t, "the report counts what was asked: "+after, differs)
	proc.Always(s.t, 10*pollEvery, pollEvery, "it stays so", differs)
	s.t.Logf("%s: %+v", after, s.want)
}
