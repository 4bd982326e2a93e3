//go:build linux

package linkis

import (
	"fmt"
	"testing"
	"time"
)

// relation is the id of the row that joins an engine's label with its resource.
const relation = `SELECT lr.id FROM linkis_cg_manager_label_resource lr JOIN linkis_cg_manager_linkis_resources r ON r.id = lr.resource_id WHERE r.ticketId = ?`

// releasesAreWhole: a release waits for no row of another engine, and removes both rows of the
// resource or none.
func (s *smoke) releasesAreWhole(t *testing.T) {
	query := values{"ecm": s.h.instance(), "memory": 64 << 20, "user": "whole", "wait": 0}
	one, other := s.grant(query), s.grant(query)
	transaction, err := s.db.BeginTx(t.Context(), nil)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = transaction.Rollback() }()
	var id int64
	if err := s.db.QueryRowContext(t.Context(), relation, other).Scan(&id); err != nil {
		t.Fatal(err)
	}
	if err := transaction.QueryRowContext(t.Context(), "SELECT id FROM linkis_cg_manager_label_resource WHERE id = ? FOR UPDATE", id).Scan(&id); err != nil {
		t.Fatal(err)
	}
	began := time.Now()
	s.ask("release", values{"ticket": one, "ecm": s.h.instance()})
	if took := time.Since(began); took > 20*time.Second || len(s.db.rows(relation, one)) != 0 {
		t.Errorf("the release took %s while another engine's row was locked, and left %v", took, s.db.rows(relation, one))
	}
	if err := transaction.Rollback(); err != nil {
		t.Fatal(err)
	}

	s.db.execute("CREATE TRIGGER stands BEFORE DELETE ON linkis_cg_manager_label_resource FOR EACH ROW SIGNAL SQLSTATE '45000'")
	s.ask("release", values{"ticket": other, "ecm": s.h.instance()})
	s.db.execute("DROP TRIGGER stands")
	if rows := s.db.rows(relation, other); len(rows) != 1 {
		t.Errorf("of the two rows that could not be removed one is left: %v and %v", s.db.rows(resourceRows), s.db.rows(relationRows))
	}
	s.db.forgetEngines()
	s.awaitNothing("after the releases")
}

// grantHoldsNobodyUp: while a grant's transaction is not over, the statements go on by which Linkis
// renames the rows of other engines when they start. The grant is stopped where it writes its
// resource.
func (s *smoke) grantHoldsNobodyUp(t *testing.T) {
	eventually(t, "the grant waits in its transaction", func() error {
		waiting, err := s.db.query("SELECT info FROM information_schema.processlist WHERE state LIKE 'Waiting for table%' AND info LIKE '%linkis_cg_manager_linkis_resources VALUES%'")
		if err == nil && len(waiting) != 1 {
			err = fmt.Errorf("%d wait: %v", len(waiting), waiting)
		}
		return err
	})
	session, err := s.db.Conn(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = session.Close() }()
	for _, statement := range []string{
		"SET innodb_lock_wait_timeout = 2",
		"UPDATE linkis_cg_manager_engine_em SET engine_instance = 'other:1' WHERE engine_instance = 'other'",
		"UPDATE linkis_cg_manager_label_service_instance SET service_instance = 'other:1' WHERE service_instance = 'other'",
	} {
		if _, err := session.ExecContext(t.Context(), statement); err != nil {
			t.Errorf("%s: %v", statement, err)
		}
	}
}
