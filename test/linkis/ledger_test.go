//go:build linux

package linkis

import (
	"errors"
	"fmt"
	"strings"
	"sync"

	bursarv1 "github.com/bursar/bursar/proto/bursar/v1"
)

// live are Bursar's live allocations.
func (w *world) live() ([]*bursarv1.Allocation, error) {
	var list []*bursarv1.Allocation
	for page, err := range w.bursar.ListAllocations(w.t.Context(), &bursarv1.AllocationServiceListRequest{}) {
		if err != nil {
			return nil, err
		}
		list = append(list, page.GetAllocations()...)
	}
	return list, nil
}

// allocation is one as Bursar has it.
func (w *world) allocation(id string) *bursarv1.Allocation {
	w.t.Helper()
	answer, err := w.bursar.Allocations().Get(w.t.Context(), &bursarv1.AllocationServiceGetRequest{Id: id})
	if err != nil {
		w.t.Fatalf("allocation %s: %v", id, err)
	}
	return answer.GetAllocation()
}

// booked is the memory that Bursar's ledger has given away on a host.
func (w *world) booked(h *host) (int64, error) {
	answer, err := w.bursar.Hosts().Get(w.t.Context(), &bursarv1.HostServiceGetRequest{Id: h.name})
	if err != nil {
		return 0, err
	}
	account := answer.GetHost().GetAccount()
	if account.GetOverLimit() {
		return 0, fmt.Errorf("%s is over its limit", h.name)
	}
	return account.GetUsed().GetMemoryBytes() + account.GetReserved().GetMemoryBytes(), nil
}

// headroom is the free memory of a host that is not promised to an engine.
func (w *world) headroom(h *host) int64 {
	w.t.Helper()
	answer, err := w.bursar.Hosts().Get(w.t.Context(), &bursarv1.HostServiceGetRequest{Id: h.name})
	if err != nil {
		w.t.Fatal(err)
	}
	return answer.GetHost().GetHeadroomBytes()
}

// watchBooked compares what a host has given away with its memory, as fast as it can, until the
// returned function is called. That returns the most that was seen.
func (w *world) watchBooked(h *host) (stop func() int64) {
	var most int64
	done, ended := make(chan struct{}), sync.WaitGroup{}
	ended.Go(func() {
		for {
			select {
			case <-done:
				return
			default:
			}
			now, err := w.booked(h)
			if err != nil && strings.Contains(err.Error(), "over its limit") {
				w.t.Error(err)
			}
			if most = max(most, now); now > w.memory {
				w.t.Errorf("Bursar has given away %d of %d bytes of %s", now, w.memory, h.name)
				return
			}
		}
	})
	return func() int64 {
		close(done)
		ended.Wait()
		return most
	}
}

// audit has Bursar check its ledger.
func (w *world) audit() {
	w.t.Helper()
	answer, err := w.bursar.Cluster().Audit(w.t.Context(), &bursarv1.AuditRequest{})
	if err != nil {
		w.t.Fatal(err)
	}
	for _, v := range answer.GetViolations() {
		w.t.Errorf("Bursar's ledger: invariant %d: %s", v.GetInvariant(), v.GetMessage())
	}
}

// Rows of engines: each has one in service_instance, and its resources. A relation is left over if
// its resource is gone.
const (
	engineRows   = "SELECT instance FROM linkis_cg_manager_service_instance WHERE name = 'linkis-cg-engineconn'"
	resourceRows = "SELECT ticketId FROM linkis_cg_manager_linkis_resources WHERE ticketId IS NOT NULL AND ticketId <> ''"
	relationRows = "SELECT lr.id FROM linkis_cg_manager_label_resource lr LEFT JOIN linkis_cg_manager_linkis_resources r ON r.id = lr.resource_id WHERE r.id IS NULL"
)

// awaitNothing waits until nothing is allocated, in Bursar and in Linkis's rows.
func (w *world) awaitNothing(when string) {
	w.t.Helper()
	eventually(w.t, "nothing is allocated "+when, func() error {
		list, err := w.live()
		if err == nil && len(list) > 0 {
			err = fmt.Errorf("Bursar has %d allocations, the first is %v", len(list), list[0])
		}
		return errors.Join(err, w.noRows(engineRows), w.noRows(resourceRows), w.noRows(relationRows))
	})
	w.audit()
}

func (w *world) noRows(query string) error {
	rows, err := w.db.query(query)
	if err == nil && len(rows) > 0 {
		err = fmt.Errorf("%d rows: %.200v", len(rows), rows)
	}
	return err
}

// ecmRow is what Linkis's row of an ECM says, in JSON.
type ecmRow struct{ max, left, used, locked string }

func (w *world) ecmRow(h *host) (ecmRow, error) {
	var r ecmRow
	err := w.db.QueryRowContext(w.t.Context(), `SELECT COALESCE(r.max_resource,''), COALESCE(r.left_resource,''), COALESCE(r.used_resource,''), COALESCE(r.locked_resource,'')
		FROM linkis_cg_manager_linkis_resources r JOIN linkis_cg_manager_label_resource lr ON lr.resource_id = r.id
		JOIN linkis_cg_manager_label l ON l.id = lr.label_id WHERE l.label_key = 'emInstance' AND l.label_value LIKE ?`, "%"+h.instance()+"%").
		Scan(&r.max, &r.left, &r.used, &r.locked)
	return r, err
}
