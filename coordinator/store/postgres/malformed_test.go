package postgres

import (
	"errors"
	"os"
	"path/filepath"
	"syscall"
	"testing"

	"github.com/bursar/bursar/coordinator/store"
)

// A file in an address may be incomplete or missing for a time. The text of the address does not
// change by itself.
func TestTheFilesOfAnAddressMayGetBetter(t *testing.T) {
	dir := t.TempDir()
	empty := filepath.Join(dir, "empty")
	if err := os.WriteFile(empty, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	none, pipe := filepath.Join(dir, "none"), filepath.Join(dir, "pipe")
	if err := syscall.Mkfifo(pipe, 0o600); err != nil {
		t.Fatal(err)
	}
	for dsn, want := range map[string]store.Refusal{
		"postgres://bursar@localhost/d?sslmode=verify-full&sslrootcert=" + empty:                   store.Denied,
		"postgres://bursar@localhost/d?sslrootcert=" + none + "&sslmode=verify-full":               store.Denied,
		"postgres://bursar@localhost/d?sslcert=" + empty + "&sslkey=" + empty + "&sslmode=require": store.Denied,
		"host=localhost user=bursar sslmode=verify-full sslrootcert='" + empty + "'":               store.Denied,
		"postgres://bursar@localhost/d?servicefile=" + none + "&service=x":                         store.Denied,
		"postgres://bursar@localhost/d?passfile=" + pipe:                                           store.Denied,
		"host=localhost user=bursar passfile='" + pipe + "'":                                       store.Denied,
		"postgres://bursar@localhost/d?sslmode=verify-full&sslrootcert=/dev/zero":                  store.Denied,
		"postgres://bursar@localhost:port/d?sslmode=verify-full&sslrootcert=" + empty:              store.Malformed,
		"postgres://bursar@localhost/d?sslcert=" + empty:                                           store.Malformed,
		"postgres://bursar@localhost:port/d":                                                       store.Malformed,
	} {
		_, err := parseAddress(dsn)
		refused, is := errors.AsType[*store.RefusedError](err)
		if !is || refused.Reason != want {
			t.Errorf("%s: %v, want %v", dsn, err, want)
		}
	}
}
