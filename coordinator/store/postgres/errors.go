package postgres

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"net"
	"strings"

	"github.com/jackc/pgx/v5/pgconn"

	"github.com/bursar/bursar/coordinator/store"
)

// The codes of PostgreSQL's errors that are used here. Codes with two characters are classes.
const (
	classConnection     = "08"
	classAuthorization  = "28"
	classOperator       = "57"
	classSystem         = "58"
	codeOutcomeUnknown  = "40003"
	codeUnknownDatabase = "3D000"
	codeNoPrivilege     = "42501"
	codeReadOnly        = "25006"
	codeDiskFull        = "53100"
	codeTooMany         = "53300"
	codeQueryCanceled   = "57014"
	codeDamagedData     = "XX001"
	codeDamagedIndex    = "XX002"
	codeWarning         = "01000"
	codeNoTable         = "42P01"
	codeNoStatement     = "26000"
	codeStatementTwice  = "42P05"
)

// answer returns the error that the server sent; nil if it sent none.
func answer(err error) *pgconn.PgError {
	if failed, ok := errors.AsType[*pgconn.PgError](err); ok {
		return failed
	}
	return nil
}

// isAway reports whether the server cannot be reached, or is stopping or starting.
func isAway(err error) bool {
	if failed := answer(err); failed != nil {
		return strings.HasPrefix(failed.Code, classConnection) || failed.Code == codeTooMany ||
			strings.HasPrefix(failed.Code, classOperator) && failed.Code != codeQueryCanceled
	}
	var network net.Error
	return errors.As(err, &network) || errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) || errors.Is(err, net.ErrClosed) ||
		strings.Contains(err.Error(), "conn closed") // pgx has no value for it
}

// classify converts an error of PostgreSQL to the types that callers of a store check for.
func classify(err error) error {
	if err == nil || errors.Is(err, context.Canceled) || errors.Is(err, context.DeadlineExceeded) {
		return err
	}
	var refused *store.RefusedError
	if errors.As(err, &refused) || errors.Is(err, store.ErrAway) {
		return err
	}
	if failed := answer(err); failed != nil {
		switch failed.Code {
		case codeDiskFull:
			return fmt.Errorf("%w: %w", store.ErrFull, err)
		case codeReadOnly:
			return fmt.Errorf("%w: %w", store.ErrReadOnly, err)
		case codeNoStatement, codeStatementTwice: // the session is another one
			return fmt.Errorf("%w: want a direct connection, or a pooler that keeps one session for each connection: %w", errPooled, err)
		case codeDamagedData, codeDamagedIndex:
			return fmt.Errorf("%w: %w", store.ErrDamaged, err)
		}
		if strings.HasPrefix(failed.Code, classSystem) {
			return fmt.Errorf("%w: %w", store.ErrIO, err)
		}
	}
	if errors.Is(err, errStandby) {
		return fmt.Errorf("%w: %w", store.ErrReadOnly, err)
	}
	if isAway(err) {
		return fmt.Errorf("%w: %w", store.ErrAway, err)
	}
	return err
}

// notCommitted reports whether a commit with this error has certainly not happened: nothing was
// sent, or the server has rolled back the statement. An error that ends the session may come after
// the commit.
func notCommitted(err error) bool {
	failed := answer(err)
	if failed == nil {
		return pgconn.SafeToRetry(err)
	}
	severity := failed.SeverityUnlocalized
	if severity == "" {
		severity = failed.Severity
	}
	switch {
	case severity != "ERROR", failed.Code == codeOutcomeUnknown, strings.HasPrefix(failed.Code, classConnection):
		return false
	case failed.Code == codeQueryCanceled:
		return true
	}
	return !strings.HasPrefix(failed.Code, classOperator) && !strings.HasPrefix(failed.Code, classSystem)
}

// refuse separates connection errors that only an operator can fix from those that may be gone at
// the next attempt.
func (s *server) refuse(ctx context.Context, err error) error {
	if ctx.Err() != nil {
		return fmt.Errorf("store %s: %w: %w", s.where, store.ErrAway, err)
	}
	if failed := answer(err); failed != nil {
		switch {
		case strings.HasPrefix(failed.Code, classAuthorization):
			return s.refused(store.Denied, failed.Message,
				"a user and a password that the server lets in; the password comes from the address or PGPASSFILE", err)
		case failed.Code == codeUnknownDatabase:
			return s.refused(store.Denied, failed.Message, "a database that exists: createdb "+s.config.ConnConfig.Database, err)
		case failed.Code == codeNoPrivilege:
			return s.refused(store.Denied, failed.Message, "a user that may connect: GRANT CONNECT ON DATABASE", err)
		}
	}
	var untrusted *tls.CertificateVerificationError
	switch {
	case errors.As(err, &untrusted):
		return s.refused(store.Denied, err.Error(), "sslmode, sslrootcert and a host name in the address that fit the server's certificate", err)
	case strings.Contains(err.Error(), "server refused TLS connection") && s.config.ConnConfig.TLSConfig != nil && len(s.config.ConnConfig.Fallbacks) == 0:
		return s.refused(store.Denied, err.Error(), "a server with ssl=on, or an address that does not require TLS: sslmode=prefer", err)
	case isAway(err):
		return fmt.Errorf("store %s: %w: %w", s.where, store.ErrAway, err)
	case errors.Is(err, errStandby):
		return s.refused(store.Denied, errStandby.Error(), "the address of the primary, or of all servers: host1:5432,host2:5432", err)
	case answer(err) != nil:
		return s.refused(store.Denied, answer(err).Message, "a server that lets this address in", err)
	}
	return s.refused(store.Foreign, "what answers there is no PostgreSQL: "+err.Error(), "the address of a PostgreSQL server", err)
}
