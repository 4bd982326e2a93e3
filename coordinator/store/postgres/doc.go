// Package postgres keeps a store in a PostgreSQL database, which several coordinators share.
//
// Every commit is one statement and one round trip. It changes the row of meta only if that is as
// this leadership left it, and all other rows only if that row was changed. The row's lock orders
// commits and leaderships. So when the next leader has taken the lead, each commit that the deposed
// leader sent is either stored or will never be. An empty batch reads that row on the connection
// that commits, and accepts no answer from a server that does not take writes.
//
// A Store has one connection that commits and a few that read, all of them to a server that takes
// writes. If the connection is lost during a commit, its outcome is reported as unknown. A commit
// sets in its own transaction that it is flushed to the server's disk, whatever the settings of the
// server, the role and the session are. Only the server can set fsync and full_page_writes: if they
// are off, the log warns.
//
// # Sessions and poolers
//
// A new session gets a mark, a random text in the setting bursar.session, which no other session
// has. A commit, a check of the epoch and a new leadership happen only on the session with the
// connection's own mark. So a pooler that hands out sessions for single transactions or statements
// is refused: at the first connection, by the mark of another connection, or at the latest when a
// commit meets another session. Nothing was committed then. A pooler must keep one session for each
// connection, and reset it afterwards.
//
// # The files that an address names
//
// The address, and the files that it names, are read again before each connection: passwords and
// certificates are replaced while coordinators run. A new connection to another store than the one
// that was opened is refused.
//
// # Other servers
//
// The statements are plain SQL with arrays (unnest), common table expressions that write and ON
// CONFLICT. Only migrations take an advisory lock: on a compatible database without such locks,
// run `bursar coordinator migrate` from one place. A server or pooler that does not know named
// prepared statements needs default_query_exec_mode=cache_describe in the address; commits are
// slower with it. Settings that a server does not know are not set: timeouts, those of TCP,
// row_security, bytea_output and enable_bitmapscan.
//
// # What it does not do
//
// It cannot see that another server has replaced one that still answers: a primary that was cut
// off, but not stopped, still serves the clients on its side. Fail-over of the database must end
// the old primary, or make its commits wait for its standbys.
package postgres
