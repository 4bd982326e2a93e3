package serve

import (
	"errors"
	"fmt"
	"log/slog"
	"net"
	"os"
	"strings"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"github.com/jackc/pgx/v5/pgconn"

	"github.com/bursar/bursar/agent"
	"github.com/bursar/bursar/coordinator"
	"github.com/bursar/bursar/coordinator/election"
	"github.com/bursar/bursar/coordinator/store"
	"github.com/bursar/bursar/internal/cli/failure"
	"github.com/bursar/bursar/internal/credential"
	"github.com/bursar/bursar/internal/discovery/consul"
	"github.com/bursar/bursar/internal/pause"
	"github.com/bursar/bursar/internal/yamlfile"
)

// What a person must put right ends a start with code 78. Anything that time may mend does not.
func TestTransientFaults(t *testing.T) {
	database := func(reason store.Refusal) error {
		return &store.RefusedError{Where: "postgres://u@h/d", Reason: reason}
	}
	file := func(reason store.Refusal, err error) error {
		return &store.RefusedError{Where: "/var/lib/bursar/bursar.db", Reason: reason, Err: err}
	}
	path := func(errno syscall.Errno) error { return &os.PathError{Op: "open", Path: "/x", Err: errno} }
	for name, c := range map[string]struct {
		err  error
		want bool
	}{
		"database denies the role":         {database(store.Denied), true},
		"database is half restored":        {database(store.Foreign), true},
		"database without the row":         {database(store.Damaged), true},
		"database in a copy":               {database(store.Unfinished), true},
		"newer schema":                     {database(store.Newer), false},
		"another cluster's":                {database(store.OtherCluster), false},
		"an address that is none":          {database(store.Malformed), false},
		"file locked":                      {file(store.InUse, nil), true},
		"file is none of ours":             {file(store.Foreign, nil), false},
		"file damaged":                     {file(store.Damaged, nil), false},
		"file on a full disk":              {file(store.Denied, path(syscall.ENOSPC)), true},
		"file on a disk that is read-only": {file(store.Denied, path(syscall.EROFS)), true},
		"file that may not be read":        {file(store.Denied, path(syscall.EACCES)), true},
		"file system not mounted":          {file(store.Denied, path(syscall.ENOENT)), true},
		"a folder is a file":               {file(store.Denied, path(syscall.ENOTDIR)), false},
		"file that others can change":      {file(store.Denied, nil), false},
		"file of quotas missing":           {&coordinator.FileError{Field: "quotaFiles[0]", Err: path(syscall.ENOENT)}, true},
		"file of quotas is a folder":       {&coordinator.FileError{Field: "quotaFiles[0]", Err: path(syscall.EISDIR)}, false},
		"PostgreSQL starts":                {&pgconn.PgError{Code: "57P03"}, true},
		"something else":                   {errors.New("something else"), true},
		"command line":                     {failure.Usagef("no such flag"), false},
		"another agent has the host":       {failure.Config(agent.ErrReplaced), false},
		"away":                             {fmt.Errorf("x: %w", store.ErrAway), true},
		"full":                             {fmt.Errorf("x: %w", store.ErrFull), true},
		"read-only":                        {fmt.Errorf("x: %w", store.ErrReadOnly), true},
		"an answer of PostgreSQL":          {&pgconn.PgError{Code: "55P03"}, true},
		"Consul says no":                   {&consul.Error{Hint: "a token", Err: errors.New("403")}, true},
		"another store in Consul":          {&election.StoreError{}, false},
		"nonsense in Consul":               {&election.IDError{}, true},
		"port in use":                      {&net.OpError{Op: "listen", Err: os.NewSyscallError("bind", syscall.EADDRINUSE)}, true},
		"name unknown":                     {&net.DNSError{Name: "db.example.com"}, true},
		"certificate missing":              {&credential.FileError{Err: path(syscall.ENOENT)}, true},
		"certificate may not be read yet":  {&credential.FileError{Err: path(syscall.EACCES)}, true},
		"certificate not valid yet":        {&credential.FileError{Later: true}, true},
		"certificate is none":              {&credential.FileError{Err: errors.New("no PEM")}, false},
		"of the coordinator":               {&coordinator.TransientConfigError{ConfigError: &coordinator.ConfigError{}}, true},
		"configuration":                    {&coordinator.ConfigError{}, false},
		"YAML":                             {&yamlfile.Error{}, false},
		"nothing":                          {nil, false},
	} {
		if got := isTransient(c.err); got != c.want {
			t.Errorf("%s: %t, want %t", name, got, c.want)
		}
		if c.err != nil {
			if got := isTransient(serverError(c.err)); got != c.want {
				t.Errorf("%s, as it is reported: %t, want %t", name, got, c.want)
			}
		}
	}
}

// A fault is logged when it is new, and once a minute; attempts come every few seconds.
func TestAttemptsArePacedAndLogged(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var log strings.Builder
		a := newAttempts(slog.New(slog.NewTextHandler(&log, nil)))
		n := 0
		for began := time.Now(); time.Since(began) < 3*time.Minute; n++ {
			if wait := a.failed(errors.New("the same")); !pause.For(wait, t.Context().Done(), nil) {
				t.Fatal("it gave up")
			}
		}
		a.failed(errors.New("another"))
		same, other := strings.Count(log.String(), "the same"), strings.Count(log.String(), "another")
		if n < 30 || n > 90 || same < 3 || same > 4 || other != 1 {
			t.Errorf("%d attempts, %d and %d lines", n, same, other)
		}
	})
}
