package sqlite

import (
	"context"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"testing"

	"go.uber.org/goleak"

	"github.com/bursar/bursar/coordinator/store"
	"github.com/bursar/bursar/coordinator/store/storetest"
)

func TestMain(m *testing.M) {
	for _, child := range []func() (bool, error){func() (bool, error) { return storetest.Child(open) }, limitedChild} {
		if isChild, err := child(); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		} else if isChild {
			os.Exit(0)
		}
	}
	if underRace {
		// SQLite runs twenty times slower then, and the model's steps come one after the other:
		// there is no race to find. The command line, which is read later, has the last word.
		if err := flag.Set("rapid.checks", "15"); err != nil {
			panic(err)
		}
	}
	goleak.VerifyTestMain(m)
}

func open(path string) (store.Store, error) { return Open(context.Background(), path, Options{}) }

// at opens the store in a file and fails the test if that does not work.
func at(t testing.TB, path string) *Store {
	t.Helper()
	s, err := Open(t.Context(), path, Options{})
	if err != nil {
		t.Fatal(err)
	}
	return s
}

// fresh makes an empty store.
func fresh(t *testing.T) storetest.Opener {
	t.Helper()
	path := filepath.Join(t.TempDir(), "data", "bursar.db")
	return func(t *testing.T) store.Store { return at(t, path) }
}

func TestStore(t *testing.T) { storetest.Run(t, fresh) }

func TestKill(t *testing.T) {
	storetest.Kill(t, filepath.Join(t.TempDir(), "bursar.db"), 20, open)
}

func TestRowsThatNobodyCanReadAreSetAside(t *testing.T) {
	storetest.Aside(t, fresh, func(t *testing.T, s store.Store, table string) {
		own, _ := s.(*Store)
		_, err := own.do(t.Context(), func(ctx context.Context, w *writer) error {
			_, err := w.conn.ExecContext(ctx, "UPDATE "+table+" SET payload = ?", []byte(storetest.Garbage))
			return err
		})
		if err != nil {
			t.Fatal(err)
		}
	})
}
