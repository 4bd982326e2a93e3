package check

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"net/url"
	"strings"
	"time"

	"github.com/go-sql-driver/mysql"
)

const (
	urlSetting  = "wds.linkis.server.mybatis.datasource.url"
	userSetting = "wds.linkis.server.mybatis.datasource.username"
	passSetting = "wds.linkis.server.mybatis.datasource.password" //nolint:gosec // a name
	timeout     = 10 * time.Second

	// The most that the program reads from a database, in all and of a table.
	maxTime  = 30 * time.Second
	maxBytes = 64 << 20
	maxRows  = 20000
)

// SettingError is a setting of the database that cannot be used. It never has a password.
type SettingError struct{ Name, Value, Want string }

func (e *SettingError) Error() string { return fmt.Sprintf("%s: %q: want %s", e.Name, e.Value, e.Want) }

// Database is Linkis's own. It is only read.
type Database struct {
	db     *sql.DB
	bounds *bounds
	// name is how errors call it.
	name   string
	millis int64 // of a core of Linkis
}

// Open connects to the database that properties name. password overrides theirs if it is not
// empty. The error is a *SettingError, or says that the database does not answer.
func Open(ctx context.Context, p Properties, password string) (*Database, error) {
	config, err := config(p, password)
	if err != nil {
		return nil, err
	}
	limits := &bounds{bytes: maxBytes, end: time.Now().Add(maxTime)}
	config.DialFunc = limits.dial
	connector, err := mysql.NewConnector(config)
	if err != nil {
		return nil, &SettingError{urlSetting, config.Addr, "jdbc:mysql://HOST:PORT/DATABASE"}
	}
	d := &Database{sql.OpenDB(connector), limits, fmt.Sprintf("database %s at %s", config.DBName, config.Addr), millisPerCore(p)}
	d.db.SetMaxOpenConns(1)
	if err := d.db.PingContext(ctx); err != nil {
		_ = d.db.Close()
		err = d.explain(err)
		if config.ServerPubKey == keyOfNobody {
			err = fmt.Errorf("%w; if the password is right: a server on another machine gets it by some methods only with %s", err, wantVerified)
		}
		return nil, err
	}
	return d, nil
}

// explain names the bound that was met, if there is one, instead of the driver's error.
func (d *Database) explain(err error) error {
	if d.bounds.err != nil {
		err = d.bounds.err
	}
	return fmt.Errorf("%s: %w", d.name, err)
}

// Close ends the connection.
func (d *Database) Close() error { return d.db.Close() } //nolint:wrapcheck // nothing to add

func config(p Properties, password string) (*mysql.Config, error) {
	want := "jdbc:mysql://HOST:PORT/DATABASE"
	rest, isMySQL := strings.CutPrefix(p[urlSetting], "jdbc:mysql://")
	if !isMySQL {
		rest, isMySQL = strings.CutPrefix(p[urlSetting], "jdbc:mariadb://")
	}
	if !isMySQL && rest != "" {
		want += "; another kind cannot be read: --no-database"
	}
	shown, _, _ := strings.Cut(p[urlSetting], "?") // what follows may be a password
	parsed, err := url.Parse("mysql://" + rest)
	if !isMySQL || err != nil || parsed.Hostname() == "" || len(parsed.Path) < 2 || parsed.User != nil {
		if strings.Contains(shown, "@") {
			shown = "…"
		}
		return nil, &SettingError{urlSetting, shown, want}
	}
	if password == "" && (p["wds.linkis.mysql.is.encrypt"] == "true") {
		return nil, &SettingError{"wds.linkis.mysql.is.encrypt", "true", "a file with the password, --password-file: only Linkis can decrypt its own"}
	}
	query := parsed.Query()
	c := mysql.NewConfig()
	c.Net, c.Addr, c.DBName = "tcp", parsed.Host, strings.TrimPrefix(parsed.Path, "/")
	if parsed.Port() == "" {
		c.Addr += ":3306"
	}
	c.User = cmpOr(p[userSetting], query.Get("user"))
	c.Passwd = cmpOr(password, cmpOr(p[passSetting], query.Get("password")))
	c.Timeout, c.ReadTimeout, c.WriteTimeout = timeout, timeout, timeout
	c.Logger = &mysql.NopLogger{} // errors are returned, too
	return c, secure(c, parsed.Hostname(), query)
}

// Rows reads the tables, in one read-only transaction. A table that is missing is a finding.
func (d *Database) Rows(ctx context.Context) (ecms []ECM, findings []Finding, err error) {
	tx, err := d.db.BeginTx(ctx, &sql.TxOptions{ReadOnly: true})
	if err != nil {
		return nil, nil, d.explain(err)
	}
	defer func() { _ = tx.Rollback() }() // nothing was written
	r := &reader{tx: tx, millis: d.millis}
	r.ecms(ctx)
	r.engines(ctx)
	r.limits(ctx)
	r.tenants(ctx)
	r.providers(ctx)
	r.clusters(ctx)
	if r.err != nil {
		return nil, nil, d.explain(r.err)
	}
	return r.managers, r.findings, nil
}

// reader reads table after table until one fails.
type reader struct {
	tx       *sql.Tx
	millis   int64 // of a core of Linkis
	managers []ECM
	findings []Finding
	err      error
}

// each calls f with the columns of every row, as texts; NULL is empty.
func (r *reader) each(ctx context.Context, table, query string, columns int, f func([]string)) {
	if r.err != nil {
		return
	}
	rows, err := r.tx.QueryContext(ctx, query)
	if wrong := (*mysql.MySQLError)(nil); errors.As(err, &wrong) && (wrong.Number == 1146 || wrong.Number == 1054) { // no such table, no such column
		r.findings = append(r.findings, Finding{Area: "database", Subject: table, Now: wrong.Message, Bursar: "not compared: want the tables of Linkis 1.7 or 1.8", Attention: true})
		return
	}
	if err != nil {
		r.err = fmt.Errorf("%s: %w", table, err)
		return
	}
	defer rows.Close()
	for n := 0; rows.Next(); n++ {
		if n == maxRows {
			r.findings = append(r.findings, Finding{Area: "database", Subject: table, Now: fmt.Sprintf("more than %d rows", maxRows), Bursar: "the others were not compared", Attention: true})
			return
		}
		texts, into := make([]sql.NullString, columns), make([]any, columns)
		for i := range texts {
			into[i] = &texts[i]
		}
		if err := rows.Scan(into...); err != nil {
			r.err = fmt.Errorf("%s: %w", table, err)
			return
		}
		values := make([]string, columns)
		for i, text := range texts {
			values[i] = text.String
		}
		f(values)
	}
	if err := rows.Err(); err != nil {
		r.err = fmt.Errorf("%s: %w", table, err)
	}
}
