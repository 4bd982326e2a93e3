//go:build linux

package linkis

import (
	"context"
	"database/sql"
	"errors"
	"net"
	"os"
	"os/exec"
	"os/user"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/cenkalti/backoff/v4"
	"github.com/go-sql-driver/mysql"
	"github.com/rogpeppe/go-internal/testscript"
)

// TestSmokeCheck runs testdata/check/*.txtar with the programs in bin, next to a MariaDB at
// DATABASE (HOST:PORT) with the database linkis of testdata/check/linkis.sql, and a bursar dev at
// ADDRESS. The user reader may read the database, with the password open-sesame; the user stranger
// may not. FREE is an address that nobody serves.
func TestSmokeCheck(t *testing.T) {
	binaries, err := filepath.Abs("../../bin")
	if err != nil {
		t.Fatal(err)
	}
	for _, program := range []string{"bursar", "bursar-linkis-check"} {
		if _, err := os.Stat(filepath.Join(binaries, program)); err != nil {
			t.Fatalf("%v: make build", err)
		}
	}
	database := checkedDatabase(t, filepath.Join("testdata", "check", "linkis.sql"))
	address, free := checkedFree(t), checkedFree(t)
	dev := exec.CommandContext(context.WithoutCancel(t.Context()), filepath.Join(binaries, "bursar"), "dev", "--listen", address, "--data-dir", t.TempDir())
	dev.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	if err := dev.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = dev.Process.Kill(); _ = dev.Wait() })
	testscript.Run(t, testscript.Params{
		Dir: filepath.Join("testdata", "check"),
		Setup: func(env *testscript.Env) error {
			env.Setenv("PATH", binaries+":"+os.Getenv("PATH"))
			env.Setenv("DATABASE", database)
			env.Setenv("ADDRESS", address)
			env.Setenv("FREE", free)
			return nil
		},
		Cmds: map[string]func(*testscript.TestScript, bool, []string){"code": exitsWith},
	})
}

// exitsWith is the command `code N COMMAND…`: it must end with exit code N.
func exitsWith(ts *testscript.TestScript, _ bool, args []string) {
	err := ts.Exec(args[1], args[2:]...)
	if exit := (*exec.ExitError)(nil); !errors.As(err, &exit) || strconv.Itoa(exit.ExitCode()) != args[0] {
		ts.Fatalf("%v: want exit code %s", err, args[0])
	}
}

// checkedDatabase starts a server of its own with what a file of SQL makes.
func checkedDatabase(t *testing.T, file string) (address string) {
	t.Helper()
	server, err := exec.LookPath("mariadbd")
	if err != nil {
		server, err = exec.LookPath("/usr/sbin/mariadbd")
	}
	if err != nil {
		t.Fatal("no mariadbd found: make linkis-ready")
	}
	folder, err := os.MkdirTemp("", "bursar-mariadb") //nolint:usetesting // the path of a socket is short
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = os.RemoveAll(folder) })
	own, err := user.Current()
	if err != nil {
		t.Fatal(err)
	}
	data := filepath.Join(folder, "data")
	if err := os.Mkdir(data, 0o700); err != nil {
		t.Fatal(err)
	}
	// Debian's package of the server alone lacks what mariadb-install-db needs.
	bootstrap := exec.CommandContext(t.Context(), server, "--no-defaults", "--bootstrap", "--datadir="+data, "--user="+own.Username, "--innodb-log-file-size=8M")
	bootstrap.Stdin = strings.NewReader(systemTables(t))
	if out, err := bootstrap.CombinedOutput(); err != nil {
		t.Fatalf("mariadbd --bootstrap: %v\n%s", err, out)
	}
	address = checkedFree(t)
	_, port, _ := net.SplitHostPort(address)
	log, err := os.Create(filepath.Join(folder, "log"))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = log.Close() })
	run := exec.CommandContext(context.WithoutCancel(t.Context()), server, "--no-defaults", "--datadir="+data, "--user="+own.Username, "--port="+port,
		"--bind-address=127.0.0.1", "--socket="+filepath.Join(folder, "sock"), "--innodb-buffer-pool-size=16M", "--skip-name-resolve")
	run.Stdout, run.Stderr = log, log
	run.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	if err := run.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = run.Process.Kill(); _ = run.Wait() })
	text, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	checkedFill(t, address, string(text), log.Name())
	return address
}

// systemTables makes the tables of accounts, and root without a password.
func systemTables(t *testing.T) string {
	t.Helper()
	text := "CREATE DATABASE mysql;\nUSE mysql;\nSET @auth_root_socket=NULL;\nSET @current_hostname='localhost';\nSET @skip_auth_anonymous=1;\n"
	for _, name := range []string{"mysql_system_tables.sql", "mysql_performance_tables.sql", "mysql_system_tables_data.sql"} {
		part, err := os.ReadFile(filepath.Join("/usr/share/mysql", name))
		if err != nil {
			t.Fatal(err)
		}
		text += string(part) + "\n"
	}
	return text
}

func checkedFree(t *testing.T) string {
	t.Helper()
	listener, err := (&net.ListenConfig{}).Listen(t.Context(), "tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer listener.Close()
	return listener.Addr().String()
}

// fill runs statements as soon as the server answers.
func checkedFill(t *testing.T, address, statements, log string) {
	t.Helper()
	config := mysql.NewConfig()
	config.User, config.Net, config.Addr, config.MultiStatements = "root", "tcp", address, true
	connector, err := mysql.NewConnector(config)
	if err != nil {
		t.Fatal(err)
	}
	db := sql.OpenDB(connector)
	defer db.Close()
	err = backoff.Retry(func() error {
		_, err := db.ExecContext(t.Context(), statements)
		if refused := (*net.OpError)(nil); err != nil && !errors.As(err, &refused) {
			return backoff.Permanent(err)
		}
		return err
	}, backoff.WithMaxRetries(backoff.NewConstantBackOff(100*time.Millisecond), 600))
	if err != nil {
		text, _ := os.ReadFile(log)
		t.Fatalf("%v\n%s", err, text)
	}
}
