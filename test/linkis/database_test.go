//go:build linux

package linkis

import (
	"context"
	"database/sql"
	"fmt"
	"os"
	"os/exec"
	"os/user"
	"path/filepath"
	"strings"
	"testing"

	_ "github.com/go-sql-driver/mysql" // the driver of Linkis's database

	"github.com/bursar/bursar/test/proc"
)

// database is a MariaDB with Linkis's schema and its first rows. It lets everybody in, listens on
// loopback of the test's own network namespace, and syncs nothing to disk.
type database struct {
	*proc.Process
	*sql.DB

	t *testing.T
}

// databasePort is the port in Linkis's configuration.
const databasePort = 17471

func startDatabase(t *testing.T, here place, dir string) *database {
	t.Helper()
	data := filepath.Join(dir, "database")
	if said, err := exec.CommandContext(t.Context(), "cp", "-a", here.database, data).CombinedOutput(); err != nil {
		t.Fatalf("copy the database: %v\n%s", err, said)
	}
	name, err := user.Current()
	if err != nil {
		t.Fatal(err)
	}
	d := &database{t: t}
	d.Process = proc.New(t, "mariadb", func() *exec.Cmd {
		return exec.CommandContext(context.WithoutCancel(t.Context()), here.mariadb, "--no-defaults", "--datadir="+data, "--user="+name.Username,
			"--lc-messages-dir=/usr/share/mysql", "--bind-address=127.0.0.1", fmt.Sprintf("--port=%d", databasePort), "--socket="+filepath.Join(dir, "mariadb.sock"),
			"--lower-case-table-names=1", "--skip-grant-tables", "--skip-log-bin", "--innodb-flush-log-at-trx-commit=0",
			"--innodb-flush-method=nosync", "--innodb-buffer-pool-size=128M", "--max-connections=500", "--tmpdir="+dir, "--pid-file="+filepath.Join(dir, "mariadb.pid"))
	})
	d.Start()
	if d.DB, err = sql.Open("mysql", "linkis@unix("+filepath.Join(dir, "mariadb.sock")+")/linkis?parseTime=true"); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = d.Close() })
	eventually(t, "MariaDB answers", func() error {
		if !d.Running() {
			t.Fatalf("MariaDB has ended:\n%s", d.Output.Tail())
		}
		return d.PingContext(t.Context())
	})
	return d
}

// execute runs one statement.
func (d *database) execute(statement string, arguments ...any) {
	d.t.Helper()
	if _, err := d.ExecContext(d.t.Context(), statement, arguments...); err != nil {
		d.t.Fatalf("%s: %v", statement, err)
	}
}

// rows is the answer to a query: each row's values with a space between them.
func (d *database) rows(query string, arguments ...any) []string {
	d.t.Helper()
	list, err := d.query(query, arguments...)
	if err != nil {
		d.t.Fatalf("%s: %v", query, err)
	}
	return list
}

func (d *database) query(query string, arguments ...any) ([]string, error) {
	answer, err := d.QueryContext(d.t.Context(), query, arguments...)
	if err != nil {
		return nil, err
	}
	defer answer.Close()
	columns, err := answer.Columns()
	if err != nil {
		return nil, err
	}
	var list []string
	for answer.Next() {
		values, into := make([]sql.NullString, len(columns)), make([]any, len(columns))
		for i := range values {
			into[i] = &values[i]
		}
		if err := answer.Scan(into...); err != nil {
			return nil, err
		}
		texts := make([]string, len(columns))
		for i, value := range values {
			if texts[i] = value.String; !value.Valid {
				texts[i] = "NULL"
			}
		}
		list = append(list, strings.Join(texts, " "))
	}
	return list, answer.Err()
}

// forgetEngines empties Linkis's rows of engines and of what is allocated, and keeps those of
// services.
func (d *database) forgetEngines() {
	d.t.Helper()
	for _, statement := range []string{
		"DELETE FROM linkis_cg_manager_service_instance_metrics WHERE instance IN (SELECT instance FROM linkis_cg_manager_service_instance WHERE name = 'linkis-cg-engineconn')",
		"DELETE FROM linkis_cg_manager_label_service_instance WHERE service_instance IN (SELECT instance FROM linkis_cg_manager_service_instance WHERE name = 'linkis-cg-engineconn')",
		"DELETE FROM linkis_cg_manager_service_instance WHERE name = 'linkis-cg-engineconn'",
		"DELETE FROM linkis_cg_manager_engine_em",
		"DELETE FROM linkis_cg_manager_linkis_resources WHERE ticketId IS NOT NULL AND ticketId <> ''",
		"DELETE FROM linkis_cg_manager_label_resource WHERE resource_id NOT IN (SELECT id FROM linkis_cg_manager_linkis_resources)",
		"DELETE FROM linkis_cg_manager_lock",
		"DELETE FROM linkis_cg_ec_resource_info_record",
	} {
		d.execute(statement)
	}
}

// temporary makes a folder that any user may enter, whose path is short enough for sockets.
func temporary(t *testing.T) string {
	t.Helper()
	dir, err := os.MkdirTemp("", "lk") //nolint:usetesting // see above
	if err != nil {
		t.Fatal(err)
	}
	guardian, err := proc.Guard(guardScript, dir)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := guardian.Dismiss(); err != nil {
			t.Error(err)
		}
	})
	if err := os.Chmod(dir, 0o755); err != nil {
		t.Fatal(err)
	}
	return dir
}

// statements is how many statements MariaDB was asked for since its start.
func (d *database) statements() int64 {
	d.t.Helper()
	var name string
	var count int64
	if err := d.QueryRowContext(d.t.Context(), "SHOW GLOBAL STATUS LIKE 'Questions'").Scan(&name, &count); err != nil {
		d.t.Fatal(err)
	}
	return count
}

// guardScript clears away what is left of a test: all processes that stand in its folder, such as
// engines, which are nobody's children, and the folder.
const guardScript = `round=0
while [ $round -lt 100 ]; do
	round=$((round + 1)); found=
	for process in /proc/[0-9]*; do
		case $(readlink "$process/cwd")/ in "$1"/*) found=1; kill -KILL "${process#/proc/}" 2>/dev/null ;; esac
	done
	[ -n "$found" ] || break
	sleep 0.05
done
rm -rf "$1"`
