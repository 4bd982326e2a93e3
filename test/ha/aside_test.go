//go:build linux

package ha

import (
	"context"
	"database/sql" //nolint:depguard // a row that nobody can read is written by somebody else than a store
	"fmt"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	_ "modernc.org/sqlite" //nolint:depguard // see above

	"github.com/bursar/bursar/test/proc"
)

// TestACoordinatorLeadsAfterARowWasSetAside: a row that nobody can read keeps every coordinator
// from leading. The log says how it is taken out, and when it is, a coordinator leads.
func TestACoordinatorLeadsAfterARowWasSetAside(t *testing.T) {
	m := newWrongConfig(t)
	dir := filepath.Join(m.dir, "data")
	file := filepath.Join(dir, "bursar.db")
	for _, store := range []struct {
		name, config, place string
		garble              func(statement string) error
	}{
		{"SQLite", fmt.Sprintf("listen: 127.0.0.1:0\ndataDir: %s\n", dir), file, func(statement string) error { return executeSQLite(t, file, statement) }},
		{"PostgreSQL", m.coordinator(m.dsn, m.consul.Address, ""), m.dsn, func(statement string) error {
			return m.database.Execute(t.Context(), "bursar", strings.ReplaceAll(statement, "x'ff'", `'\xff'`))
		}},
	} {
		t.Run(store.name, func(t *testing.T) {
			m := *m
			m.t = t
			m.run("coordinator", store.config, goesOn, "leading")
			if err := store.garble("INSERT INTO host (id, payload) VALUES ('vm-17', x'ff')"); err != nil {
				t.Fatal(err)
			}
			m.run("coordinator", store.config, goesOn, "no coordinator leads while this row is there", `bursar store set-aside host`, "vm-17")
			into := filepath.Join(m.dir, store.name+".json")
			ctx, cancel := context.WithTimeout(t.Context(), patience)
			defer cancel()
			cmd := exec.CommandContext(ctx, executable, "store", "set-aside", "host", "vm-17", "--store", store.place, "--into", into, "--force")
			cmd.Env = proc.Environment()
			if output, err := cmd.CombinedOutput(); err != nil {
				t.Fatalf("%v\n%s", err, output)
			}
			m.run("coordinator", store.config, goesOn, "leading")
		})
	}
}

func executeSQLite(t *testing.T, file, statement string) error {
	t.Helper()
	db, err := sql.Open("sqlite", file)
	if err != nil {
		return err
	}
	defer db.Close()
	_, err = db.ExecContext(t.Context(), statement)
	return err
}
