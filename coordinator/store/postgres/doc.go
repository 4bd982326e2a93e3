// Package postgres keeps a store in a database of PostgreSQL, which several coordinators share.
//
// Every commit is one statement and one round trip. It changes the row of meta under the condition that it is as this leadership left it,
// and all other rows only if that row was changed; the row's lock puts commits and leaderships into one order. So what a leader sent
// before it was deposed is either there when the next one has taken the lead, or never will be. An empty batch reads
// that row on the connection that commits, and takes no answer from a server that cannot be written to.
//
// A Store has one connection that commits and a few that read, all of them to a server that takes writes. What a lost connection
// breaks off is reported as of unknown outcome. Commits are flushed to the server's disk whatever its settings say, except
// fsync, which only the server can set: where that is off the log warns.
//
// # Other servers and poolers
//
// The statements are plain SQL with arrays (unnest), common table expressions that write and ON CONFLICT. Migrations take an
// advisory lock, and nothing else does: on a compatible database without one, run `bursar coordinator migrate` from one place.
// Between Bursar and the server a pooler must keep a session for each connection. One that does not know named prepared statements needs
// default_query_exec_mode=cache_describe in the address; commits are slower with it.
//
// # What it does not do
//
// It cannot see that a server which still answers has been replaced by another: a primary that was cut off, not stopped, goes on
// serving those on its side. Fail-over of the database must end the old primary, or make its commits wait for its standbys.
package postgres
