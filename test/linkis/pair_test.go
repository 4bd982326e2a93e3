//go:build linux

package linkis

import (
	"fmt"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	bursarv1 "github.com/bursar/bursar/proto/bursar/v1"
	"github.com/bursar/bursar/test/proc"
)

// pair is two LinkisManagers with the same database, Eureka and Bursar.
type pair struct {
	*world

	second *world // through the other manager
}

// deadTTL is how long a reservation holds in TestManagers.
const deadTTL = 20 * time.Second

// TestManagers has two managers decide about the same ECMs.
func TestManagers(t *testing.T) {
	w := newWorld(t, options{hosts: 2})
	p := &pair{world: w, second: w.another("manager-2")}
	properties := map[string]string{"linkis.bursar.wait.max": "2s", "linkis.bursar.reservation.ttl": fmt.Sprint(deadTTL), "linkis.bursar.quota.interval": "2s"}
	for _, each := range p.both() {
		each.startManager(enforced, properties)
		each.manager.listed()
	}
	for _, h := range w.hosts {
		w.startECM(h)
	}
	for _, s := range []step{
		{"both grant and nothing goes over", p.bothGrant},
		{"rows are right and stay as they are", p.rowsAreStable},
		{"both import quotas", p.quotasAreStable},
		{"one is killed", p.oneIsKilled},
	} {
		t.Run(s.name, func(t *testing.T) {
			for _, each := range p.both() {
				each.t = t
			}
			outer := w.db.t
			w.db.t = t
			defer func() { w.t, p.second.t, w.db.t = outer, outer, outer }()
			s.f(t)
		})
	}
}

func (p *pair) both() []*world { return []*world{p.world, p.second} }

// bothGrant: each manager runs a load on each ECM, and wants all of it.
func (p *pair) bothGrant(t *testing.T) {
	var most []func() int64
	for _, h := range p.hosts {
		most = append(most, p.watchBooked(h))
	}
	first, second := p.startLoads(20), p.second.startLoads(20)
	loads := [2][]outcome{first(), second()}
	for i, h := range p.hosts {
		of := []outcome{loads[0][i], loads[1][i]}
		for n, o := range of {
			t.Logf("manager %d on %s: %v", n+1, h.name, o)
			if o.Error != "" || o.Failed != 0 || o.Over != 0 || o.Cycles < 30 {
				t.Errorf("manager %d on %s: %d cycles, %d failed, %d over, %s", n+1, h.name, o.Cycles, o.Failed, o.Over, o.Error)
			}
		}
		peak, booked := peakOf(p.memory/8, of...), most[i]()
		t.Logf("%s: %.2f GiB were held at most, Bursar gave away %.2f", h.name, float64(peak)/(1<<30), float64(booked)/(1<<30))
		if peak > p.memory || booked != p.memory {
			t.Errorf("%s: %d bytes were held and %d booked, of %d", h.name, peak, booked, p.memory)
		}
	}
	p.awaitNothing("after both loads")
}

// rowsAreStable: with an engine of each manager on each ECM, all rows that both managers keep say
// the truth, and nobody writes one while nothing changes.
func (p *pair) rowsAreStable(t *testing.T) {
	type held struct {
		by     *world
		query  values
		ticket string
	}
	var all []held
	for n, by := range p.both() {
		for i, h := range p.hosts {
			query := values{"ecm": h.instance(), "memory": (256 << 20) * (n + i + 1), "user": fmt.Sprintf("stable%d", n)}
			ticket := by.grant(query)
			query["ticket"] = ticket
			by.ask("used", query)
			all = append(all, held{by, query, ticket})
		}
	}
	for i, h := range p.hosts {
		used := int64(256<<20) * int64(2*i+3)
		eventually(t, "the row of "+h.name+" is right", func() error {
			row, err := p.ecmRow(h)
			if err == nil && (!strings.Contains(row.used, fmt.Sprint(used)) || !strings.Contains(row.left, fmt.Sprint(p.memory-used))) {
				err = fmt.Errorf("%+v", row)
			}
			return err
		})
	}
	eventually(t, "the rows of users are right: two have engines, two each", func() error {
		rows, err := p.db.query(`SELECT l.label_value, r.used_resource FROM linkis_cg_manager_linkis_resources r
			JOIN linkis_cg_manager_label_resource lr ON lr.resource_id = r.id JOIN linkis_cg_manager_label l ON l.id = lr.label_id
			WHERE l.label_key = 'combined_userCreator_engineType' AND r.used_resource NOT LIKE '%"instances":0}'`)
		if text := strings.Join(rows, "\n"); err == nil && (len(rows) != 2 || strings.Count(text, `"user":"stable`) != 2 || strings.Count(text, `"instances":2}`) != 2) {
			err = fmt.Errorf("%s", text)
		}
		return err
	})
	p.isStable(t, "the rows", func() (string, error) {
		rows, err := p.db.query(`SELECT l.label_key, l.label_value, r.* FROM linkis_cg_manager_linkis_resources r
			JOIN linkis_cg_manager_label_resource lr ON lr.resource_id = r.id JOIN linkis_cg_manager_label l ON l.id = lr.label_id ORDER BY 1, 2, r.id`)
		if err == nil && len(rows) < len(p.hosts)+len(all) {
			err = fmt.Errorf("only %d rows", len(rows))
		}
		return strings.Join(rows, "\n"), err
	})
	var said []string
	for _, each := range p.both() {
		m, err := p.rest(each.manager, http.MethodGet, "linkisManager/listAllEMs", nil, patience)
		if err != nil || m.Status != 0 {
			t.Fatalf("listAllEMs: %v %v", m, err)
		}
		fields := make(picture)
		flatten(fields, "", m.Data)
		said = append(said, fmt.Sprint(fields))
	}
	if said[0] != said[1] || len(said[0]) < 1000 {
		t.Errorf("listAllEMs: one manager says\n%s\nand the other\n%s", said[0], said[1])
	}
	// Each engine is ended by the manager that has not asked for it.
	for i, h := range all {
		h.query["ticket"] = h.ticket
		p.both()[(i/len(p.hosts)+1)%2].ask("release", h.query)
	}
	p.awaitNothing("after the release by the other manager")
}

// isStable reads something five times, for more than two of the intervals in which it is kept in
// step. It must not change.
func (p *pair) isStable(t *testing.T, what string, read func() (string, error)) {
	t.Helper()
	first, err := read()
	if err != nil {
		t.Fatal(err)
	}
	reads := 1
	proc.Always(t, 12*time.Second, 3*time.Second, what+" stay as they are", func() error {
		reads++
		again, err := read()
		if err == nil && again != first {
			err = fmt.Errorf("they were\n%s\nand are\n%s", first, again)
		}
		return err
	})
	if reads < 5 {
		t.Errorf("%s were read %d times, want 5", what, reads)
	}
}

// imports are the rules that come from Linkis, with what changes whenever they do.
func (p *pair) imports() (rules []string, err error) {
	for page, err := range p.bursar.ListQuotas(p.t.Context(), &bursarv1.QuotaServiceListRequest{}) {
		if err != nil {
			return nil, err
		}
		for _, q := range page.GetQuotas() {
			if q.GetSource() == "import:linkis" {
				rules = append(rules, fmt.Sprint(q.GetSelector(), " ", q.GetLimit(), " ", q.GetEtag()))
			}
		}
	}
	slices.Sort(rules)
	return rules, nil
}

// quotasAreStable: a value of Linkis's configuration becomes a rule once, whoever is first, holds
// at both managers, and goes with its value.
func (p *pair) quotasAreStable(t *testing.T) {
	before, err := p.imports()
	if err != nil {
		t.Fatal(err)
	}
	const label = "few-IDE,shell-1"
	p.db.execute("INSERT INTO linkis_cg_manager_label (label_key, label_value, label_feature, label_value_size) VALUES ('combined_userCreator_engineType', ?, 'OPTIONAL', 2)", label)
	p.db.execute(`INSERT INTO linkis_ps_configuration_config_value (config_key_id, config_value, config_label_id)
		SELECT MIN(k.id), '2', l.id FROM linkis_ps_configuration_config_key k JOIN linkis_cg_manager_label l WHERE k.`+"`key`"+` = 'wds.linkis.rm.instance' AND l.label_value = ?`, label)
	await := func(want bool) {
		t.Helper()
		eventually(t, fmt.Sprintf("there is a rule of the user: %v", want), func() error {
			rules, err := p.imports()
			if err == nil && strings.Contains(strings.Join(rules, "\n"), "user:few") != want {
				err = fmt.Errorf("%d rules: %.600v", len(rules), rules)
			}
			return err
		})
	}
	await(true)
	p.isStable(t, "the rules", func() (string, error) {
		rules, err := p.imports()
		return strings.Join(rules, "\n"), err
	})
	query := values{"ecm": p.hosts[0].instance(), "memory": 64 << 20, "user": "few", "wait": 0}
	first, second := p.grant(query), p.second.grant(query)
	for _, each := range p.both() {
		if refused := each.ask("request", query); !strings.Contains(refused.text("refused"), "few") {
			t.Errorf("want a refusal that names the user: %v", refused)
		}
	}
	for _, ticket := range []string{first, second} {
		p.second.ask("release", values{"ticket": ticket, "ecm": p.hosts[0].instance(), "user": "few"})
	}
	p.db.execute("DELETE v FROM linkis_ps_configuration_config_value v JOIN linkis_cg_manager_label l ON l.id = v.config_label_id WHERE l.label_value = ?", label)
	await(false)
	p.isStable(t, "the rules", func() (string, error) {
		rules, err := p.imports()
		if err == nil && len(rules) != len(before) {
			err = fmt.Errorf("%d rules before, %d after", len(before), len(rules))
		}
		return strings.Join(rules, "\n"), err
	})
	p.awaitNothing("after the release")
}

// oneIsKilled: the other goes on, and gives back what the dead one had reserved.
func (p *pair) oneIsKilled(t *testing.T) {
	loads := p.second.startLoads(45)
	p.awaitGrants(20)
	query := values{"ecm": p.hosts[0].instance(), "memory": 64 << 20, "user": "dead", "wait": 10_000}
	var reserved []string
	for range 3 {
		reserved = append(reserved, p.grant(query))
	}
	runs := p.grant(query)
	p.ask("used", values{"ecm": p.hosts[0].instance(), "memory": 64 << 20, "user": "dead", "ticket": runs})
	for _, id := range reserved {
		if a := p.allocation(id); a.GetState() != bursarv1.AllocationState_ALLOCATION_STATE_RESERVED {
			t.Fatalf("want a reservation: %v", a)
		}
	}
	p.manager.Kill()
	killed := time.Now()
	more := p.second.awaitGrants(50)
	t.Logf("one manager was killed; 50 more grants of the other took %s", round(more))
	for _, id := range reserved {
		proc.Eventually(t, deadTTL+30*time.Second, pollEvery, "what the dead one had reserved is given back", func() error {
			if a := p.allocation(id); a.GetState() != bursarv1.AllocationState_ALLOCATION_STATE_EXPIRED {
				return fmt.Errorf("%v", a)
			}
			return nil
		})
	}
	t.Logf("its reservations were given back after %s", round(time.Since(killed)))
	if a := p.allocation(runs); a.GetState() != bursarv1.AllocationState_ALLOCATION_STATE_ACTIVE {
		t.Errorf("an engine of the dead manager that ran was not kept: %v", a)
	}
	eventually(t, "rows of its reservations are gone", func() error {
		for _, id := range reserved {
			if err := p.noRows("SELECT instance FROM linkis_cg_manager_service_instance WHERE instance = '" + id + "' UNION ALL SELECT ticketId FROM linkis_cg_manager_linkis_resources WHERE ticketId = '" + id + "'"); err != nil {
				return err
			}
		}
		return nil
	})
	for i, o := range loads() {
		t.Logf("the other one on %s: %v; longest time without a grant %s", p.hosts[i].name, o, round(pauseOf(o)))
		if o.Error != "" || o.Failed != 0 || o.Over != 0 {
			t.Errorf("%d cycles failed, %d over, %s", o.Failed, o.Over, o.Error)
		}
	}
	p.second.ask("release", values{"ticket": runs, "ecm": p.hosts[0].instance(), "user": "dead"})
	p.awaitNothing("at the end")
}
