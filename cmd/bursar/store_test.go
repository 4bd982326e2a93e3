package main

import (
	"errors"
	"path/filepath"
	"strings"
	"testing"

	"github.com/rogpeppe/go-internal/testscript"

	"github.com/bursar/bursar/coordinator/ledger"
	"github.com/bursar/bursar/coordinator/store"
	"github.com/bursar/bursar/coordinator/store/opener"
	"github.com/bursar/bursar/coordinator/store/storetest"
	"github.com/bursar/bursar/test/postgres"
)

// TestStoreScripts runs testdata/store/*.txtar against a real PostgreSQL. $DATABASE and $OTHER are
// the addresses of two empty databases, with a password; $FILE is the path of a store with three
// live allocations and one that has ended.
func TestStoreScripts(t *testing.T) {
	server := postgres.Start(t, postgres.Options{Password: "s3cr3t"})
	testscript.Run(t, testscript.Params{
		Dir: filepath.Join("testdata", "store"),
		Setup: func(env *testscript.Env) error {
			script := strings.ToLower(filepath.Base(env.WorkDir))
			database, err := server.CreateDatabase(t.Context(), script)
			other, otherErr := server.CreateDatabase(t.Context(), script+"-other")
			file := filepath.Join(env.WorkDir, "filled", "bursar.db")
			env.Setenv("DATABASE", database)
			env.Setenv("OTHER", other)
			env.Setenv("FILE", file)
			env.Setenv("GORACE", goRace)
			return errors.Join(err, otherErr, fillStore(t, file))
		},
		Cmds: map[string]func(ts *testscript.TestScript, neg bool, args []string){"code": expectCode, "setenv": setEnv},
	})
}

func fillStore(t *testing.T, file string) error {
	t.Helper()
	s, err := opener.Open(t.Context(), file, opener.Options{})
	if err != nil {
		return err
	}
	meta, err := s.Lead(t.Context(), 5)
	if err == nil {
		c := ledger.Changes{Revision: 4, LastID: 4, Hosts: []ledger.HostRecord{{ID: "host-0123.example.org"}}}
		for id, state := range []ledger.State{ledger.Active, ledger.Active, ledger.Active, ledger.Released} {
			c.Transitions = append(c.Transitions, storetest.Typical(ledger.ID(id+1), state, uint64(id+1)))
		}
		err = s.Commit(t.Context(), store.Batch{Epoch: meta.Epoch, Changes: c})
	}
	return errors.Join(err, s.Close())
}
