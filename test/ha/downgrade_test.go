//go:build linux

package ha

import (
	"fmt"
	"os"
	"path/filepath"
	"testing"
)

// TestTheVersionBeforeOnANewerStore: if this version has changed the tables, the version before
// refuses the store because of its version and leaves it to this one; it can use a copy that was
// made before the upgrade. If this version has not changed them, the version before can use the
// store itself.
func TestTheVersionBeforeOnANewerStore(t *testing.T) {
	before := versionBefore(t)
	migrations, err := migrationsIn("../..")
	if err != nil {
		t.Fatal(err)
	}
	schema := len(migrations)
	t.Logf("the version before has schema %d, this one %d", before.schema, schema)
	m := newWrongConfig(t)
	dir, kept := filepath.Join(m.dir, "data"), filepath.Join(m.dir, "kept")
	sqlite := fmt.Sprintf("listen: 127.0.0.1:0\ndataDir: %s\n", dir)
	for _, config := range []string{sqlite, m.coordinator(m.dsn, m.consul.Address, "")} {
		m.program = before.program
		m.run("coordinator", config, goesOn, "leading")
		if config == sqlite {
			if err := os.CopyFS(kept, os.DirFS(dir)); err != nil {
				t.Fatal(err)
			}
		}
		m.program = ""
		m.run("coordinator", config, goesOn, "leading")
		m.program = before.program
		if before.schema < schema {
			m.run("coordinator", config, exitConfig, "from a newer version", fmt.Sprintf("its schema is version %d", schema),
				fmt.Sprintf("want a version of bursar that knows it (this one knows up to %d)", before.schema))
		} else {
			m.run("coordinator", config, goesOn, "leading")
		}
		m.program = ""
		m.run("coordinator", config, goesOn, "leading")
	}
	if err := os.RemoveAll(dir); err != nil {
		t.Fatal(err)
	}
	if err := os.Rename(kept, dir); err != nil {
		t.Fatal(err)
	}
	m.program = before.program
	m.run("coordinator", sqlite, goesOn, "leading")
}
