package postgres

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/bursar/bursar/coordinator/store"
	"github.com/bursar/bursar/internal/regularfile"
	"github.com/bursar/bursar/test/certs"
	"github.com/bursar/bursar/test/postgres"
)

// replace puts a content into a file, as a rotation does.
func replace(t *testing.T, path, content string) {
	t.Helper()
	if err := os.WriteFile(path+".new", []byte(content), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := os.Rename(path+".new", path); err != nil {
		t.Fatal(err)
	}
}

// Each file that an address names is read again before the next connection.
func TestEveryFileOfTheAddressIsReadAgain(t *testing.T) {
	first, second := certs.New(t, "first"), certs.New(t, "second")
	identity := func(t *testing.T, a *certs.Authority, dir, name string) {
		cert, key := a.Issue(t, certs.Request{Name: name}).Files(t, dir, "new")
		for from, to := range map[string]string{cert: "own.pem", key: "own.key"} {
			if err := os.Rename(from, filepath.Join(dir, to)); err != nil {
				t.Fatal(err)
			}
		}
	}
	for name, c := range map[string]struct {
		dsn           string            // "DIR" stands for the folder of the files
		env           map[string]string // as well
		before, after func(t *testing.T, dir string)
		look          func(*pgx.ConnConfig) string
	}{
		"passfile": {
			"postgres://u@h/d?sslmode=disable&passfile=DIR/pass", nil,
			func(t *testing.T, dir string) { replace(t, dir+"/pass", "*:*:*:u:one") },
			func(t *testing.T, dir string) { replace(t, dir+"/pass", "*:*:*:u:two") },
			func(c *pgx.ConnConfig) string { return c.Password },
		},
		"servicefile": {
			"postgres:///?sslmode=disable&service=s&servicefile=DIR/services", nil,
			func(t *testing.T, dir string) { replace(t, dir+"/services", "[s]\nhost=one\nuser=u\ndbname=d\n") },
			func(t *testing.T, dir string) { replace(t, dir+"/services", "[s]\nhost=two\nuser=u\ndbname=d\n") },
			func(c *pgx.ConnConfig) string { return c.Host },
		},
		"sslrootcert": {
			"postgres://u:p@h/d?sslmode=verify-full&sslrootcert=DIR/ca.pem", nil,
			func(t *testing.T, dir string) { replace(t, dir+"/ca.pem", string(first.PEM())) },
			func(t *testing.T, dir string) { replace(t, dir+"/ca.pem", string(second.PEM())) },
			func(c *pgx.ConnConfig) string {
				return fmt.Sprintf("%q", c.TLSConfig.RootCAs.Subjects()) //nolint:staticcheck // the file's own alone
			},
		},
		"sslcert and sslkey": {
			"postgres://u:p@h/d?sslmode=require&sslcert=DIR/own.pem&sslkey=DIR/own.key", nil,
			func(t *testing.T, dir string) { identity(t, first, dir, "one") },
			func(t *testing.T, dir string) { identity(t, first, dir, "two") },
			func(c *pgx.ConnConfig) string { return fmt.Sprintf("%x", c.TLSConfig.Certificates[0].Certificate[0]) },
		},
		"PGPASSFILE": {
			"postgres://u@h/d?sslmode=disable",
			map[string]string{"PGPASSFILE": "DIR/pass"},
			func(t *testing.T, dir string) { replace(t, dir+"/pass", "*:*:*:u:one") },
			func(t *testing.T, dir string) { replace(t, dir+"/pass", "*:*:*:u:two") },
			func(c *pgx.ConnConfig) string { return c.Password },
		},
		"PGSERVICEFILE": {
			"postgres:///?sslmode=disable&service=s",
			map[string]string{"PGSERVICEFILE": "DIR/services"},
			func(t *testing.T, dir string) { replace(t, dir+"/services", "[s]\nhost=one\nuser=u\ndbname=d\n") },
			func(t *testing.T, dir string) { replace(t, dir+"/services", "[s]\nhost=two\nuser=u\ndbname=d\n") },
			func(c *pgx.ConnConfig) string { return c.Host },
		},
		"PGSSLROOTCERT": {
			"postgres://u:p@h/d?sslmode=verify-full",
			map[string]string{"PGSSLROOTCERT": "DIR/ca.pem"},
			func(t *testing.T, dir string) { replace(t, dir+"/ca.pem", string(first.PEM())) },
			func(t *testing.T, dir string) { replace(t, dir+"/ca.pem", string(second.PEM())) },
			func(c *pgx.ConnConfig) string {
				return fmt.Sprintf("%q", c.TLSConfig.RootCAs.Subjects()) //nolint:staticcheck // the file's own alone
			},
		},
		"PGSSLCERT and PGSSLKEY": {
			"postgres://u:p@h/d?sslmode=require",
			map[string]string{"PGSSLCERT": "DIR/own.pem", "PGSSLKEY": "DIR/own.key"},
			func(t *testing.T, dir string) { identity(t, first, dir, "one") },
			func(t *testing.T, dir string) { identity(t, first, dir, "two") },
			func(c *pgx.ConnConfig) string { return fmt.Sprintf("%x", c.TLSConfig.Certificates[0].Certificate[0]) },
		},
	} {
		t.Run(name, func(t *testing.T) {
			dir := t.TempDir()
			for name, value := range c.env {
				t.Setenv(name, strings.ReplaceAll(value, "DIR", dir))
			}
			c.before(t, dir)
			s, err := newServer(strings.ReplaceAll(c.dsn, "DIR", dir), nil, slog.New(slog.DiscardHandler))
			if err != nil {
				t.Fatal(err)
			}
			was := c.look(s.address.now())
			if again := c.look(s.address.now()); again != was || was == "" {
				t.Fatalf("%q became %q without a change", was, again)
			}
			c.after(t, dir)
			if now := c.look(s.address.now()); now == was {
				t.Errorf("connections made by hand still use %q", now)
			}
			var config pgx.ConnConfig
			if err := s.config.BeforeConnect(t.Context(), &config); err != nil {
				t.Fatal(err)
			}
			if now := c.look(&config); now == was {
				t.Errorf("the pool's connections still use %q", now)
			}
		})
	}
}

// A file system that hangs delays the start by only a few seconds, and is named. When it answers,
// the address is read.
func TestAFileOfTheAddressThatHangsIsNamed(t *testing.T) {
	for name, c := range map[string]struct{ parameter, variable, path string }{
		"passfile":      {"passfile=/nfs/p%61ss", "", "/nfs/pass"},
		"sslrootcert":   {"sslrootcert=/nfs/ca.pem", "", "/nfs/ca.pem"},
		"sslcert":       {"sslcert=/nfs/own.pem&sslkey=/own.key", "", "/nfs/own.pem"},
		"servicefile":   {"servicefile=/nfs/services", "", "/nfs/services"},
		"PGPASSFILE":    {"", "PGPASSFILE", "/nfs/pass"},
		"PGSSLROOTCERT": {"", "PGSSLROOTCERT", "/nfs/ca.pem"},
		"the home's":    {"", "HOME", "/nfs/.pgpass"},
	} {
		t.Run(name, func(t *testing.T) {
			if c.variable == "HOME" {
				t.Setenv("HOME", "/nfs")
			} else if c.variable != "" {
				t.Setenv(c.variable, c.path)
			}
			synctest.Test(t, func(t *testing.T) {
				answers := make(chan struct{})
				var reading atomic.Int64
				read := func(path string, _ int64) ([]byte, error) {
					if strings.HasPrefix(path, "/nfs/") {
						reading.Add(1)
						defer reading.Add(-1)
						<-answers
					}
					return nil, &fs.PathError{Op: "open", Path: path, Err: fs.ErrNotExist}
				}
				dsn := "postgres://u:hunter2@h/d?sslmode=disable&" + c.parameter
				for range 3 {
					began := time.Now()
					_, err := parseWith(dsn, read)
					refused, ok := errors.AsType[*store.RefusedError](err)
					if !ok || refused.Reason != store.Denied || refused.Where != "PostgreSQL" || !strings.Contains(err.Error(), c.path) ||
						strings.Contains(err.Error(), "hunter2") || time.Since(began) != regularfile.Patience {
						t.Errorf("after %v: %v", time.Since(began), err)
					}
				}
				if n := reading.Load(); n != 1 {
					t.Errorf("%d threads hang", n)
				}
				close(answers)
				synctest.Wait()
				if _, err := parseWith(dsn, read); err != nil && strings.Contains(err.Error(), "does not answer") {
					t.Error(err)
				}
			})
		})
	}
}

// The password of the role changes, in the address's own file or in the file of passwords, and the
// server restarts: all connections are made again. A file that is temporarily wrong does not break
// working connections.
func TestThePasswordChanges(t *testing.T) {
	server := postgres.Start(t, postgres.Options{Password: "one"})
	for _, from := range []string{"the file of the address", "passfile"} {
		t.Run(from, func(t *testing.T) {
			file := filepath.Join(t.TempDir(), "secret")
			dsn := server.DSN("postgres")
			put := func(password string) { replace(t, file, strings.Replace(dsn, ":one@", ":"+password+"@", 1)) }
			read := func() (string, error) {
				text, err := os.ReadFile(file)
				return string(text), err
			}
			if from == "passfile" {
				address := strings.Replace(dsn, ":one@", "@", 1) + "&passfile=" + file
				put = func(password string) { replace(t, file, "*:*:*:*:"+password) }
				read = func() (string, error) { return address, nil }
			}
			change := func(password string) {
				put(password)
				if err := server.Execute(t.Context(), "postgres", "ALTER ROLE bursar PASSWORD '"+password+"'"); err != nil {
					t.Fatal(err)
				}
			}
			change("one")
			var log bytes.Buffer
			address, err := read()
			if err != nil {
				t.Fatal(err)
			}
			s, err := Open(t.Context(), Options{DSN: address, Read: read, Migrate: true, Log: slog.New(slog.NewTextHandler(&log, nil))})
			if err != nil {
				t.Fatal(err)
			}
			defer s.Close()
			if _, err := s.Lead(t.Context(), 0); err != nil {
				t.Fatal(err)
			}
			change("two")
			if err := server.Restart(t.Context()); err != nil {
				t.Fatal(err)
			}
			if _, err := s.Get(t.Context(), 1); !errors.Is(err, store.ErrNotFound) {
				t.Errorf("reading after the change: %v", err)
			}
			if _, err := s.Lead(t.Context(), 0); err != nil {
				t.Errorf("leading after the change: %v", err)
			}
			if from == "passfile" {
				return
			}
			replace(t, file, "postgres://bursar:two@[")
			if err := server.Restart(t.Context()); err != nil {
				t.Fatal(err)
			}
			if _, err := s.Lead(t.Context(), 0); err != nil || !strings.Contains(log.String(), "stays in use") || strings.Contains(log.String(), "two") {
				t.Errorf("with a broken address: %v, %s", err, log.String())
			}
		})
	}
}

// The address later names another database, as after a change in DNS or a failover to a server that
// was newly set up: no connection to it is used.
func TestAnotherStoreAnswers(t *testing.T) {
	for name, other := range map[string]func(t *testing.T) string{
		"another store": func(t *testing.T) string {
			dsn := emptySchema(t)
			fill(t, opened(t, dsn), 3)
			return dsn
		},
		"no tables": func(t *testing.T) string { return emptySchema(t) },
	} {
		t.Run(name, func(t *testing.T) {
			own, foreign := emptySchema(t), other(t)
			now := own
			s, err := Open(t.Context(), Options{DSN: own, Read: func() (string, error) { return now, nil }, Migrate: true})
			if err != nil {
				t.Fatal(err)
			}
			defer s.Close()
			epoch := fill(t, s, 1)
			now = foreign
			cutAll(t, s)
			want := func(err error) {
				t.Helper()
				refused, ok := errors.AsType[*store.RefusedError](err)
				if !ok || refused.Reason != store.OtherStore {
					t.Errorf("got %v, want %v", err, store.OtherStore)
				}
			}
			_, err = s.Get(t.Context(), 1)
			want(err)
			want(s.Commit(t.Context(), store.Batch{Epoch: epoch, Changes: allocations(2, 1, 2)}))
			_, err = s.Lead(t.Context(), 0)
			want(err)
			now = own
			if _, err := s.Get(t.Context(), 1); err != nil {
				t.Error(err)
			}
			if _, err := s.Lead(t.Context(), 0); err != nil {
				t.Error(err)
			}
		})
	}
}

// cutAll ends all connections of a store.
func cutAll(t *testing.T, s *Store) {
	t.Helper()
	s.reading.Reset()
	conn := <-s.writer.turn
	s.writer.turn <- nil
	if conn != nil {
		abandon(context.WithoutCancel(t.Context()), conn)
	}
}
