package postgres

import (
	"context"
	"strings"
	"testing"

	"github.com/bursar/bursar/coordinator/store"
	"github.com/bursar/bursar/test/postgres"
)

// grants are the permissions in docs/operations.md for a role that may not make tables, in the
// schema of a separate database.
const grants = "GRANT USAGE ON SCHEMA public TO granted; GRANT SELECT, INSERT, UPDATE, DELETE ON ALL TABLES IN SCHEMA public TO granted"

// asGranted returns an address with the user that has those grants.
func asGranted(dsn string) string { return strings.Replace(dsn, postgres.User+"@", "granted@", 1) }

// migrated makes a database with the tables, and a role of that name without permissions in it.
func migrated(t *testing.T) (execute func(statements string), dsn string) {
	t.Helper()
	name, dsn := emptyDatabase(t)
	execute = func(statements string) {
		t.Helper()
		if err := shared.Execute(context.WithoutCancel(t.Context()), name, statements); err != nil {
			t.Fatal(err)
		}
	}
	execute("REVOKE ALL ON SCHEMA public FROM public")
	if err := at(t, dsn).Close(); err != nil {
		t.Fatal(err)
	}
	return execute, asGranted(dsn)
}

// wantLacking opens a store whose role lacks a privilege, and expects the error to name it and the
// statement that grants it.
func wantLacking(t *testing.T, dsn, lacks, grant string) {
	t.Helper()
	found, wanted := wantRefused(t, Options{DSN: dsn, Migrate: true}, store.Denied)
	if !strings.Contains(found, lacks) {
		t.Errorf("found %q: want it to say %q", found, lacks)
	}
	if !strings.Contains(wanted, grant) {
		t.Errorf("want %q: want it to say %q", wanted, grant)
	}
}

const grantRows = "GRANT SELECT, INSERT, UPDATE, DELETE ON ALL TABLES IN SCHEMA public TO granted"

func TestARoleNeedsTheRowsAndNothingElse(t *testing.T) {
	execute, dsn := migrated(t)
	wantLacking(t, dsn, "role granted lacks USAGE on schema public", "GRANT USAGE ON SCHEMA public TO granted")
	execute("GRANT USAGE ON SCHEMA public TO granted")
	wantLacking(t, dsn, "role granted lacks SELECT, INSERT, UPDATE, DELETE on allocation", grantRows)
	execute(grants)
	fill(t, opened(t, dsn), 1) // the suite of all stores runs with these, too
}

func TestEveryPrivilegeThatIsNeededIsAskedFor(t *testing.T) {
	execute, dsn := migrated(t)
	execute(grants)
	for _, table := range append(store.Tables(), store.HistoryIndexTable, "meta", versionTable) {
		for _, privilege := range []string{"SELECT", "INSERT", "UPDATE", "DELETE"} {
			if table == versionTable && privilege != "SELECT" || table == "meta" && privilege == "DELETE" {
				continue
			}
			execute("REVOKE " + privilege + " ON " + table + " FROM granted")
			wantLacking(t, dsn, "role granted lacks "+privilege+" on "+table, grantRows)
			execute("GRANT " + privilege + " ON " + table + " TO granted")
		}
	}
	execute("REVOKE INSERT, UPDATE, DELETE ON " + versionTable + " FROM granted; REVOKE DELETE ON meta FROM granted")
	fill(t, opened(t, dsn), 1)
}

func TestATableOfALaterMigrationHasToBeGrantedToo(t *testing.T) {
	execute, dsn := migrated(t)
	execute(grants + "; REVOKE ALL ON refusal FROM granted")
	wantLacking(t, dsn, "role granted lacks SELECT, INSERT, UPDATE, DELETE on refusal", grantRows)
}

func TestTablesAreMadeByARoleThatMay(t *testing.T) {
	name, dsn := emptyDatabase(t)
	execute := func(statements string) {
		t.Helper()
		if err := shared.Execute(t.Context(), name, statements); err != nil {
			t.Fatal(err)
		}
	}
	execute("REVOKE ALL ON SCHEMA public FROM public; GRANT USAGE ON SCHEMA public TO granted")
	wantLacking(t, asGranted(dsn), "role granted lacks CREATE on schema public", "GRANT CREATE ON SCHEMA public TO granted")
	wantLacking(t, asGranted(dsn), "role granted lacks CREATE on schema public", "bursar coordinator migrate")

	filledAt(t, dsn, 3, 1)
	execute(grants)
	wantLacking(t, asGranted(dsn), "its schema is version 3", "role "+postgres.User)
	execute("GRANT CREATE ON SCHEMA public TO granted")
	wantLacking(t, asGranted(dsn), "they belong to role "+postgres.User, "bursar coordinator migrate")
}

func TestASchemaThatMayNotBeUsedIsToldFromOneThatIsNotThere(t *testing.T) {
	_, dsn := emptyDatabase(t)
	wantLacking(t, dsn+"&search_path=nowhere", "no schema of the search path", "CREATE SCHEMA")
	execute, dsn := migrated(t)
	execute(`CREATE SCHEMA "Odd name"`)
	wantLacking(t, dsn+`&search_path=%22Odd%20name%22`, `USAGE on schema "Odd name"`, `GRANT USAGE ON SCHEMA "Odd name" TO granted`)
}
