package postgres_test

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/bursar/bursar/test/postgres"
)

// abandonVariable names, in the environment of a child, the directory in which it launches a server
// that it never ends.
const abandonVariable = "BURSAR_POSTGRES_ABANDON"

func TestMain(m *testing.M) {
	if dir, isChild := os.LookupEnv(abandonVariable); isChild {
		if err := abandon(dir); err != nil {
			fmt.Fprintln(os.Stderr, err)
		}
		os.Exit(1)
	}
	os.Exit(m.Run())
}

// query reads one text from a database.
func query(t *testing.T, dsn, statement string) (string, error) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 5*time.Second)
	defer cancel()
	connection, err := pgx.Connect(ctx, dsn)
	if err != nil {
		return "", err
	}
	defer connection.Close(ctx)
	var text string
	err = connection.QueryRow(ctx, statement).Scan(&text)
	return text, err
}

func want(t *testing.T, dsn, statement, answer string) {
	t.Helper()
	if got, err := query(t, dsn, statement); err != nil || got != answer {
		t.Fatalf("%s: %q, %v; want %q", statement, got, err, answer)
	}
}

func TestLife(t *testing.T) {
	s := postgres.Start(t, postgres.Options{})
	ctx := t.Context()
	dsn, err := s.CreateDatabase(ctx, "a database")
	if err != nil {
		t.Fatal(err)
	}
	want(t, dsn, "SHOW fsync", "on")
	want(t, dsn, "SHOW server_encoding", "UTF8")
	if err := s.Execute(ctx, "a database", "CREATE TABLE n (i int); INSERT INTO n VALUES (1)"); err != nil {
		t.Fatal(err)
	}
	const count = "SELECT count(*)::text FROM n"

	backup := filepath.Join(t.TempDir(), "backup")
	if err := s.Backup(ctx, backup); err != nil {
		t.Fatal(err)
	}
	if err := s.Execute(ctx, "a database", "INSERT INTO n VALUES (2)"); err != nil {
		t.Fatal(err)
	}
	for _, step := range []func() error{
		func() error { return s.Restart(ctx) },
		func() error { return errors.Join(s.Kill(), s.Start(ctx)) },
		func() error { return errors.Join(s.Stop(syscall.SIGQUIT), s.Start(ctx)) },
	} {
		if err := step(); err != nil {
			t.Fatal(err)
		}
		want(t, dsn, count, "2")
	}
	if err := s.Restore(ctx, backup); err != nil {
		t.Fatal(err)
	}
	want(t, dsn, count, "1")
}

func TestPause(t *testing.T) {
	s := postgres.Start(t, postgres.Options{})
	dsn := s.DSN("postgres")
	connection, err := pgx.Connect(t.Context(), dsn)
	if err != nil {
		t.Fatal(err)
	}
	defer connection.Close(t.Context())
	if err := s.Pause(); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), 100*time.Millisecond)
	defer cancel()
	if _, err := connection.Exec(ctx, "SELECT 1"); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("a stopped server answers: %v", err)
	}
	if err := s.Continue(); err != nil {
		t.Fatal(err)
	}
	want(t, dsn, "SELECT 'on'", "on")
}

func TestPassword(t *testing.T) {
	s := postgres.Start(t, postgres.Options{Password: "a b/c:d@e", Settings: map[string]string{"work_mem": "5MB"}})
	want(t, s.DSN("postgres"), "SHOW work_mem", "5MB")
	if _, err := query(t, strings.Replace(s.DSN("postgres"), "a%20b", "wrong", 1), "SHOW fsync"); err == nil {
		t.Error("a wrong password opens it")
	}
}

// A killed process leaves no server behind, not even a paused one.
func TestNothingIsLeftBehind(t *testing.T) {
	executable, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	dir, err := os.MkdirTemp("", "bursar-postgres-") //nolint:usetesting // another user must get into it
	if err != nil {
		t.Fatal(err)
	}
	defer os.RemoveAll(dir)
	child := exec.CommandContext(t.Context(), executable)
	child.Env = append(os.Environ(), abandonVariable+"="+dir)
	child.Stderr = os.Stderr
	output, err := child.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := child.Start(); err != nil {
		t.Fatal(err)
	}
	address, err := bufio.NewReader(output).ReadString('\n')
	if err != nil {
		t.Fatal(err)
	}
	if err := child.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	_ = child.Wait()
	deadline, again := time.After(30*time.Second), time.NewTicker(20*time.Millisecond)
	defer again.Stop()
	for {
		_, statErr := os.Stat(dir)
		connection, dialErr := net.Dial("tcp", strings.TrimSpace(address))
		if dialErr == nil {
			connection.Close()
		}
		if dialErr != nil && errors.Is(statErr, fs.ErrNotExist) {
			return
		}
		select {
		case <-again.C:
		case <-deadline:
			t.Fatalf("left behind: directory %v, server %v", statErr, dialErr)
		}
	}
}

func abandon(dir string) error {
	s, err := postgres.Launch(context.Background(), dir, postgres.Options{})
	if err != nil {
		return err
	}
	if err := s.Pause(); err != nil {
		return err
	}
	fmt.Println(s.Host())
	select {}
}

func TestMissingServer(t *testing.T) {
	t.Setenv("PG_BIN", t.TempDir())
	if _, err := postgres.Launch(t.Context(), t.TempDir(), postgres.Options{}); err == nil || !strings.Contains(err.Error(), "PG_BIN") {
		t.Errorf("got %v", err)
	}
}
