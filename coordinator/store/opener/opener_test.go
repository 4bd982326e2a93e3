package opener

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/bursar/bursar/coordinator/store"
)

func TestAddressInAnotherFormIsNoFile(t *testing.T) {
	t.Chdir(t.TempDir())
	for _, where := range []string{
		"host=db password=s3cr3t dbname=bursar", "password=s3cr3t", "user = bursar password = 's3cr3t'", "HOST=db PASSWORD=s3cr3t",
		"bursar:s3cr3t@db1/bursar", "jdbc:postgresql://db/bursar?password=s3cr3t", "POSTGRES://bursar:s3cr3t@db/bursar", "mysql://u:s3cr3t@db/x",
		" host=db\tpassword=s3cr3t", "postgres:/bursar:s3cr3t@db",
	} {
		opened, err := Open(t.Context(), where, Options{})
		if err == nil {
			t.Errorf("%q: it was opened", where)
			_ = opened.Close()
			continue
		}
		var refused *store.RefusedError
		if !errors.As(err, &refused) || !strings.Contains(err.Error(), "want postgres://") {
			t.Errorf("%q: %v: want it refused, and told what is right", where, err)
		}
		if strings.Contains(err.Error()+Name(where), "s3cr3t") {
			t.Errorf("%q: the password is told: %v, %s", where, err, Name(where))
		}
	}
	if made, err := os.ReadDir("."); err != nil || len(made) > 0 {
		t.Errorf("made %v, %v: want nothing", made, err)
	}
}

func TestPathIsAFile(t *testing.T) {
	t.Chdir(t.TempDir())
	for _, where := range []string{"bursar.db", "./user=alice@rm-1.db", filepath.Join(t.TempDir(), "a=b c=d@x.db"), "books/of 2026.db"} {
		opened, err := Open(t.Context(), where, Options{})
		if err != nil {
			t.Errorf("%q: %v", where, err)
			continue
		}
		if err := opened.Close(); err != nil {
			t.Error(err)
		}
		if Name(where) != where {
			t.Errorf("%q is shown as %q", where, Name(where))
		}
	}
}
