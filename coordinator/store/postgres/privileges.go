package postgres

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strings"

	"github.com/jackc/pgx/v5"

	"github.com/bursar/bursar/coordinator/store"
)

// rowPrivileges are the privileges that the statements of a store need on its tables. No table is
// locked or truncated, and there are no sequences. The grant in a refusal is one statement, and so
// gives more than needed on the tables of meta and of versions.
var rowPrivileges = []string{"SELECT", "INSERT", "UPDATE", "DELETE"}

// needs returns the required privileges by table.
func needs() map[string][]string {
	all := map[string][]string{
		"meta":       {"SELECT", "INSERT", "UPDATE"},
		versionTable: {"SELECT"},

		store.HistoryIndexTable: rowPrivileges,
		store.ChangeTable:       rowPrivileges,
	}
	for _, table := range store.Tables() {
		all[table] = rowPrivileges
	}
	return all
}

// role is the role that opens a store, and the schema of the store. Both are quoted if a statement
// needs that.
type role struct {
	name, schema string
	creates      bool // it may make tables in the schema
}

// grantRows returns the statement that lets the role use the tables of another role.
func (r role) grantRows() string {
	return fmt.Sprintf("GRANT %s ON ALL TABLES IN SCHEMA %s TO %s", strings.Join(rowPrivileges, ", "), r.schema, r.name)
}

func (r role) grantOnSchema(privilege string) string {
	return fmt.Sprintf("GRANT %s ON SCHEMA %s TO %s", privilege, r.schema, r.name)
}

// made describes how another role makes the tables.
func (r role) made(by string) string {
	return fmt.Sprintf("them made by %s: bursar coordinator migrate with its address; then, by the same: %s", by, r.grantRows())
}

// whoAmI reads the role of a session and the first schema of the search path that it may use.
func whoAmI(ctx context.Context, conn *pgx.Conn) (r role, err error) {
	const query = `SELECT quote_ident(current_user), quote_ident(current_schema()), has_schema_privilege(current_schema(), 'CREATE')`
	if err := conn.QueryRow(ctx, query).Scan(&r.name, &r.schema, &r.creates); err != nil {
		return r, fmt.Errorf("looking at the role: %w", err)
	}
	return r, nil
}

// withoutSchema refuses a database if the role can use no schema of its search path: there is none,
// or the role lacks the privilege.
func (s *server) withoutSchema(ctx context.Context, conn *pgx.Conn) error {
	const query = `SELECT quote_ident(current_user), coalesce((SELECT quote_ident(n.nspname)
 FROM unnest(string_to_array(current_setting('search_path'), ',')) WITH ORDINALITY AS p (name, place)
 JOIN pg_namespace n ON n.nspname = CASE WHEN btrim(p.name, ' "') = '$user' THEN current_user ELSE btrim(p.name, ' "') END
 WHERE NOT has_schema_privilege(n.oid, 'USAGE') ORDER BY p.place LIMIT 1), '')`
	var r role
	if err := conn.QueryRow(ctx, query).Scan(&r.name, &r.schema); err != nil {
		return fmt.Errorf("looking for the schema: %w", err)
	}
	if r.schema == "" {
		return s.refused(store.Denied, "no schema of the search path is there", "a schema: CREATE SCHEMA, or another search_path", nil)
	}
	return s.refused(store.Denied, fmt.Sprintf("role %s lacks USAGE on schema %s", r.name, r.schema), r.grantOnSchema("USAGE"), nil)
}

// checkRows refuses tables on which the role lacks a privilege. Otherwise the first commit that
// needs it would fail, long after the coordinator has begun to lead. It does not check tables that
// do not exist yet.
func (s *server) checkRows(ctx context.Context, conn *pgx.Conn) error {
	var tables, privileges []string
	for table, all := range needs() {
		for _, privilege := range all {
			tables, privileges = append(tables, table), append(privileges, privilege)
		}
	}
	const query = `SELECT c.relname::text, n.privilege FROM pg_class c
 JOIN unnest($1::text[], $2::text[]) AS n (name, privilege) ON c.relname = n.name
 WHERE c.relkind IN ('r', 'p') AND c.relnamespace = (SELECT oid FROM pg_namespace WHERE nspname = current_schema())
 AND NOT has_table_privilege(c.oid, n.privilege)`
	found, err := conn.Query(ctx, query, tables, privileges)
	if err != nil {
		return fmt.Errorf("looking at the privileges: %w", err)
	}
	lacking := make(map[string][]string) // by table
	var table, privilege string
	_, err = pgx.ForEachRow(found, []any{&table, &privilege}, func() error {
		lacking[table] = append(lacking[table], privilege)
		return nil
	})
	if err != nil {
		return fmt.Errorf("looking at the privileges: %w", err)
	}
	if len(lacking) == 0 {
		return nil
	}
	r, err := whoAmI(ctx, conn)
	if err != nil {
		return err
	}
	return s.refused(store.Denied, fmt.Sprintf("role %s lacks %s", r.name, describe(lacking)),
		"its owner, or a superuser, to give it: "+r.grantRows(), nil)
}

// describe names the missing privileges, and groups the tables that lack the same ones.
func describe(lacking map[string][]string) string {
	together := make(map[string][]string) // tables by privileges
	for table, privileges := range lacking {
		ordered := slices.SortedFunc(slices.Values(privileges), func(a, b string) int {
			return slices.Index(rowPrivileges, a) - slices.Index(rowPrivileges, b)
		})
		key := strings.Join(ordered, ", ")
		together[key] = append(together[key], table)
	}
	parts := make([]string, 0, len(together))
	for privileges, tables := range together {
		slices.Sort(tables)
		parts = append(parts, privileges+" on "+strings.Join(tables, ", "))
	}
	// most first
	slices.SortFunc(parts, func(a, b string) int { return cmp.Or(cmp.Compare(len(b), len(a)), cmp.Compare(a, b)) })
	return strings.Join(parts, "; ")
}

// checkMaking refuses a role that may not create the tables, or may not change those of the present
// version. PostgreSQL lets only their owner change them, whatever was granted.
func (s *server) checkMaking(ctx context.Context, conn *pgx.Conn, version, latest int64) error {
	r, err := whoAmI(ctx, conn)
	if err != nil {
		return err
	}
	const query = `SELECT coalesce(min(quote_ident(tableowner)), '') FROM pg_tables
 WHERE schemaname = current_schema() AND NOT pg_has_role(tableowner, 'USAGE')`
	var owner string // another role
	if err := conn.QueryRow(ctx, query).Scan(&owner); err != nil {
		return fmt.Errorf("looking at who owns the tables: %w", err)
	}
	older := fmt.Sprintf("its schema is version %d, this bursar's %d", version, latest)
	switch {
	case owner != "":
		return s.refused(store.Denied, fmt.Sprintf("%s; role %s may not change the tables: they belong to role %s", older, r.name, owner),
			r.made("role "+owner), nil)
	case r.creates:
		return nil
	case version > 0:
		older += "; "
	default:
		older = "the database has no tables yet; "
	}
	return s.refused(store.Denied, fmt.Sprintf("%srole %s lacks CREATE on schema %s", older, r.name, r.schema),
		r.grantOnSchema("CREATE")+"; or "+r.made("another role"), nil)
}
