package postgres

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"strconv"
	"strings"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgtype"

	"github.com/bursar/bursar/coordinator/ledger"
	"github.com/bursar/bursar/coordinator/store"
)

// Commit implements store.Store.
func (s *Store) Commit(ctx context.Context, batch store.Batch) error {
	if err := s.enter(); err != nil {
		return err
	}
	defer s.leave()
	err := s.commit(ctx, &batch)
	if err == nil {
		return nil
	}
	s.writer.end(batch.Epoch)
	if errors.Is(err, store.ErrDeposed) {
		return err
	}
	return fmt.Errorf("store: commit: %w", err)
}

func (s *Store) commit(ctx context.Context, batch *store.Batch) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	if _, err := s.writer.may(batch.Epoch); err != nil {
		return err
	}
	if batch.Empty() {
		return classify(s.writer.use(ctx, false, func(conn *pgx.Conn) error { return s.checkEpoch(ctx, conn, batch.Epoch) }))
	}
	a, _ := s.batches.Get().(*arguments)
	if a == nil {
		a = &arguments{}
	}
	// a commit that was given up no longer reads from it: it was sent, or its connection is gone
	defer s.batches.Put(a)
	if err := a.fill(batch); err != nil {
		return err
	}
	err := s.writer.use(ctx, false, func(conn *pgx.Conn) error { return s.write(ctx, conn, batch.Epoch, a) })
	if err == nil || errors.Is(err, store.ErrDeposed) || errors.Is(err, errPooled) || !begun(err) || notCommitted(err) {
		return classify(err)
	}
	return fmt.Errorf("%w: %w", store.ErrUnknownOutcome, classify(err))
}

// checkEpochSQL reads the leadership, whether this server accepts writes, and the session's mark.
const checkEpochSQL = `SELECT epoch, sequence, leadership, current_setting('transaction_read_only'), ` + markText + ` FROM meta WHERE one = 1`

func (s *Store) checkEpoch(ctx context.Context, conn *pgx.Conn, epoch uint64) error {
	own, err := s.writer.may(epoch) // an earlier commit may have failed meanwhile
	if err != nil {
		return err
	}
	var stored, sequence int64
	var leadership, readOnly, mark string
	if err := conn.QueryRow(ctx, checkEpochSQL).Scan(&stored, &sequence, &leadership, &readOnly, &mark); err != nil {
		return fmt.Errorf("checking the epoch: %w", err)
	}
	if mark != markOf(conn) {
		return s.server.pooled()
	}
	if readOnly != "off" {
		return errStandby
	}
	return own.differs(term{store.Unsigned(stored), leadership, sequence})
}

// differs returns an ErrDeposed if the stored term is not the one that this leadership wrote last.
func (t term) differs(stored term) error {
	switch {
	case stored == t:
		return nil
	case stored.epoch != t.epoch:
		return &store.DeposedError{Epoch: t.epoch, Stored: stored.epoch}
	case stored.secret != t.secret:
		return fmt.Errorf("%w: the store was put back, and epoch %d is another's now", store.ErrDeposed, t.epoch)
	default:
		return fmt.Errorf("%w: the store was put back: it is at sequence %d, and epoch %d left it at %d",
			store.ErrDeposed, store.Unsigned(stored.sequence), t.epoch, store.Unsigned(t.sequence))
	}
}

// write makes a batch durable.
func (s *Store) write(ctx context.Context, conn *pgx.Conn, epoch uint64, a *arguments) error {
	own, err := s.writer.may(epoch)
	if err != nil {
		return err
	}
	s.writer.warned.Store(false)
	s.writer.firstEnd = min(s.writer.firstEnd, a.rows.FirstEnd)
	var led int64
	var mark string
	if err := conn.QueryRow(ctx, a.statement(own, markOf(conn)), a.list...).Scan(&led, &mark); err != nil {
		return err //nolint:wrapcheck // its caller does
	}
	if s.writer.warned.Load() {
		return errors.New("the server has done it with a reservation: it may be lost if the server is replaced by another")
	}
	if led == 1 {
		s.writer.advance(epoch, a.rows.Sequence)
		s.forgetRecords(ctx, conn, a.rows.Sequence)
		return nil
	}
	if mark != markOf(conn) {
		return s.server.pooled()
	}
	if err := s.checkEpoch(ctx, conn, epoch); errors.Is(err, store.ErrDeposed) {
		return err
	}
	return &store.DeposedError{Epoch: epoch, Stored: epoch} // the new leader is not known here
}

// arguments are the columns of a batch's rows, as the parameters of one statement.
type arguments struct {
	rows store.Rows

	ids, ended, hashes          []int64
	states, forgets             []int16
	hostIDs, callers, requests  []string
	payloads                    [][]byte
	hosts, quotas, providers    keyedColumns
	refusals                    keyedColumns
	launches, launchesGone      []int64
	launchPayloads              [][]byte
	hostsGone, selectorKeysGone []string
	providersGone, refusalsGone []string
	change                      []byte // the record of the changed keys

	list []any
}

// keyedColumns are the columns of hosts, rules, providers or refusals.
type keyedColumns struct {
	keys, texts []string
	payloads    [][]byte
}

// fill converts a batch to columns.
func (a *arguments) fill(batch *store.Batch) error {
	a.rows.Reset()
	if err := a.rows.Encode(batch); err != nil {
		return err
	}
	a.ids, a.ended, a.hashes = a.ids[:0], a.ended[:0], a.hashes[:0]
	a.states, a.forgets = a.states[:0], a.forgets[:0]
	a.hostIDs, a.callers, a.requests, a.payloads = a.hostIDs[:0], a.callers[:0], a.requests[:0], a.payloads[:0]
	for i := range a.rows.Allocations {
		row := &a.rows.Allocations[i]
		a.ids, a.ended, a.hashes = append(a.ids, row.ID), append(a.ended, row.Ended), append(a.hashes, row.RequestHash)
		a.states, a.forgets = append(a.states, row.State), append(a.forgets, row.Forget)
		a.hostIDs, a.callers = append(a.hostIDs, escape(row.HostID)), append(a.callers, escape(row.Caller))
		a.requests, a.payloads = append(a.requests, escape(row.RequestID)), append(a.payloads, row.Payload)
	}
	a.hosts = columns(a.rows.Hosts, escape)
	a.quotas = columns(a.rows.Quotas, selectorKey)
	a.providers, a.refusals = columns(a.rows.Providers, escape), columns(a.rows.Refusals, escape)
	a.hostsGone, a.selectorKeysGone = keys(a.rows.HostsGone, escape), keys(a.rows.QuotasGone, selectorKey)
	a.providersGone, a.refusalsGone = keys(a.rows.ProvidersGone, escape), keys(a.rows.RefusalsGone, escape)
	a.launches, a.launchPayloads, a.launchesGone = nil, nil, a.rows.LaunchesGone
	for i := range a.rows.Launches {
		a.launches, a.launchPayloads = append(a.launches, a.rows.Launches[i].ID), append(a.launchPayloads, a.rows.Launches[i].Payload)
	}
	return nil
}

func columns(rows []store.KeyedRow, key func(string) string) (c keyedColumns) {
	for _, row := range rows {
		c.keys, c.texts, c.payloads = append(c.keys, key(row.Key)), append(c.texts, escape(row.Key)), append(c.payloads, row.Payload)
	}
	return c
}

func keys(list []string, key func(string) string) (k []string) {
	for _, text := range list {
		k = append(k, key(text))
	}
	return k
}

// selectorKey is the key of a rule's row.
func selectorKey(selector string) string {
	sum := sha256.Sum256([]byte(selector))
	return hex.EncodeToString(sum[:])
}

// escape encodes a text so that a column accepts it; unescape decodes it. It leaves nearly all
// texts unchanged.
func escape(text string) string {
	if !strings.ContainsAny(text, "\\\x00") {
		return text
	}
	return strings.NewReplacer(`\`, `\\`, "\x00", `\0`).Replace(text)
}

func unescape(text string) string {
	if !strings.Contains(text, `\`) {
		return text
	}
	return strings.NewReplacer(`\\`, `\`, `\0`, "\x00").Replace(text)
}

// The parts of a commit. The first changes meta if it is still as this leadership left it and if
// the session still has its mark, and makes the transaction durable. The others run for each row
// that the first has changed, which is one or none. All of them are one statement and so one
// transaction. "$" stands for the number of a parameter.
const (
	// The index of the history must end before the batch's first end: after a clock has gone back,
	// an end could be behind the filled part, without entries.
	fencePart = `WITH led AS (UPDATE meta SET sequence = $, indexed_sequence = $, last_id = $, ledger_time = $, outages = CASE WHEN $::text = '' THEN outages ELSE $::text END,
 indexed_end = least(indexed_end, $::bigint - 1), indexed_id = CASE WHEN indexed_end >= $ THEN 9223372036854775807 ELSE indexed_id END
 WHERE one = 1 AND epoch = $ AND sequence = $ AND leadership = $ AND ` + markText + ` = $::text RETURNING one, ` + durablyNow + `)`

	allocationPart = `, allocations AS (INSERT INTO allocation (id, state, ended, host_id, caller, request_id, request_hash, forget, payload)
 SELECT a.id, a.state, a.ended, a.host_id, a.caller, a.request_id, a.request_hash, a.forget, a.payload FROM led,
 unnest($::bigint[], $::smallint[], $::bigint[], $::text[], $::text[], $::text[], $::bigint[], $::smallint[], $::bytea[])
 AS a (id, state, ended, host_id, caller, request_id, request_hash, forget, payload)
 ON CONFLICT (id) DO UPDATE SET state = excluded.state, ended = excluded.ended, host_id = excluded.host_id, caller = excluded.caller,
 request_id = excluded.request_id, request_hash = excluded.request_hash, forget = excluded.forget, payload = excluded.payload)`

	hostPart = `, hosts AS (INSERT INTO host (id, payload) SELECT h.id, h.payload FROM led, unnest($::text[], $::bytea[]) AS h (id, payload)
 ON CONFLICT (id) DO UPDATE SET payload = excluded.payload)`
	hostGonePart = `, hosts_gone AS (DELETE FROM host USING led WHERE id = ANY($::text[]))`

	quotaPart = `, quotas AS (INSERT INTO quota (key, selector, payload) SELECT q.key, q.selector, q.payload FROM led,
 unnest($::text[], $::text[], $::bytea[]) AS q (key, selector, payload)
 ON CONFLICT (key) DO UPDATE SET payload = excluded.payload)`
	quotaGonePart = `, quotas_gone AS (DELETE FROM quota USING led WHERE key = ANY($::text[]))`

	providerPart = `, providers AS (INSERT INTO provider (name, payload) SELECT p.name, p.payload FROM led, unnest($::text[], $::bytea[]) AS p (name, payload)
 ON CONFLICT (name) DO UPDATE SET payload = excluded.payload)`
	providerGonePart = `, providers_gone AS (DELETE FROM provider USING led WHERE name = ANY($::text[]))`

	refusalPart = `, refusals AS (INSERT INTO refusal (id, payload) SELECT r.id, r.payload FROM led, unnest($::text[], $::bytea[]) AS r (id, payload)
 ON CONFLICT (id) DO UPDATE SET payload = excluded.payload)`
	refusalGonePart = `, refusals_gone AS (DELETE FROM refusal USING led WHERE id = ANY($::text[]))`

	launchPart = `, launches AS (INSERT INTO launch (id, payload) SELECT l.id, l.payload FROM led, unnest($::bigint[], $::bytea[]) AS l (id, payload)
 ON CONFLICT (id) DO UPDATE SET payload = excluded.payload)`
	launchGonePart = `, launches_gone AS (DELETE FROM launch USING led WHERE id = ANY($::bigint[]))`

	endPart = ` SELECT count(*), ` + markText + ` FROM led`
)

// statement joins the parts that the batch needs, and appends their parameters to list.
func (a *arguments) statement(own term, mark string) string {
	text := fencePart
	a.list = append(a.list[:0], a.rows.Sequence, a.rows.Sequence, a.rows.LastID, a.rows.Time, a.rows.Outages, a.rows.Outages, a.rows.FirstEnd, a.rows.FirstEnd, a.rows.Epoch, own.sequence, own.secret, mark)
	add := func(some bool, part string, args ...any) {
		if some {
			text += part
			a.list = append(a.list, args...)
		}
	}
	add(len(a.ids) > 0, allocationPart,
		a.ids, a.states, a.ended, a.hostIDs, a.callers, a.requests, a.hashes, a.forgets, a.payloads)
	add(len(a.hosts.keys) > 0, hostPart, a.hosts.keys, a.hosts.payloads)
	add(len(a.hostsGone) > 0, hostGonePart, a.hostsGone)
	add(len(a.quotas.keys) > 0, quotaPart, a.quotas.keys, a.quotas.texts, a.quotas.payloads)
	add(len(a.selectorKeysGone) > 0, quotaGonePart, a.selectorKeysGone)
	add(len(a.providers.keys) > 0, providerPart, a.providers.keys, a.providers.payloads)
	add(len(a.providersGone) > 0, providerGonePart, a.providersGone)
	add(len(a.refusals.keys) > 0, refusalPart, a.refusals.keys, a.refusals.payloads)
	add(len(a.refusalsGone) > 0, refusalGonePart, a.refusalsGone)
	add(len(a.launches) > 0, launchPart, a.launches, a.launchPayloads)
	add(len(a.launchesGone) > 0, launchGonePart, a.launchesGone)
	a.record(own, add)
	return number(text + endPart)
}

// number gives each "$" its number.
func number(text string) string {
	var b strings.Builder
	b.Grow(len(text) + 32)
	for n := 1; ; n++ {
		before, after, found := strings.Cut(text, "$")
		b.WriteString(before)
		if !found {
			return b.String()
		}
		b.WriteByte('$')
		b.WriteString(strconv.Itoa(n))
		text = after
	}
}

// deleteSQL checks the end again: the row may have changed since the read.
const deleteSQL = `DELETE FROM allocation a USING unnest($1::bigint[], $2::bigint[]) AS d (id, ended)
 WHERE a.id = d.id AND a.ended = d.ended AND a.ended > 0 RETURNING a.id, a.ended, a.payload`

// Delete implements store.Store.
func (s *Store) Delete(ctx context.Context, ended []store.Position) (int, error) {
	ids, times := make([]int64, len(ended)), make([]int64, len(ended))
	for i, at := range ended {
		ids[i], times[i] = store.Signed(uint64(at.ID)), int64(at.Ended)
	}
	deleted := 0
	err := s.read(ctx, "deleting from the history", func(conn *pgx.Conn) error {
		return pgx.BeginFunc(ctx, conn, func(tx pgx.Tx) error {
			entries, n, err := deleteRows(ctx, tx, ids, times)
			if deleted = n; err != nil {
				return err
			}
			return changeEntries(ctx, tx, deleteEntriesSQL, entries)
		})
	})
	if err != nil {
		return 0, err
	}
	return deleted, nil
}

// deleteRows deletes rows. It returns their entries in the index of the history, and the number of
// rows.
func deleteRows(ctx context.Context, tx pgx.Tx, ids, times []int64) (entries []store.IndexEntry, n int, err error) {
	found, err := tx.Query(ctx, deleteSQL, ids, times)
	if err != nil {
		return nil, 0, err //nolint:wrapcheck // read does
	}
	defer found.Close()
	for ; found.Next(); n++ {
		var id, ended int64
		var payload pgtype.DriverBytes // valid until the next row
		if err := found.Scan(&id, &ended, &payload); err != nil {
			return nil, 0, err //nolint:wrapcheck // read does
		}
		entries = store.IndexEntries(entries, store.Position{Ended: ledger.Instant(ended), ID: ledger.ID(store.Unsigned(id))}, payload)
	}
	return entries, n, found.Err() //nolint:wrapcheck // read does
}
