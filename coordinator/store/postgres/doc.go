// Package postgres keeps a store in a PostgreSQL database, which several coordinators share.
//
// Every commit is one statement and one round trip. It changes the row of meta only if that is as
// this leadership left it, and all other rows only if that row was changed. The row's lock puts
// commits and leaderships into one order. So what a leader sent before it was deposed is either
// stored when the next one has taken the lead, or is never stored. An empty batch reads that row
// on the connection that commits, and accepts no answer from a server that does not take writes.
//
// A Store has one connection that commits and a few that read, all of them to a server that takes
// writes. If the connection is lost during a commit, its outcome is reported as unknown. Commits
// are flushed to the server's disk whatever its settings say, except fsync, which only the server
// can set: if that is off, the log warns.
//
// # Other servers and poolers
//
// The statements are plain SQL with arrays (unnest), common table expressions that write and ON
// CONFLICT. Only migrations take an advisory lock: on a compatible database without such locks,
// run `bursar coordinator migrate` from one place. Between Bursar and the server a pooler must
// keep a session for each connection. One that does not know named prepared statements needs
// default_query_exec_mode=cache_describe in the address; commits are slower with it. Settings that
// a server does not know are not set: idle_session_timeout, those of TCP, and enable_bitmapscan.
//
// # What it does not do
//
// It cannot see that a server which still answers was replaced by another: a primary that was cut
// off, but not stopped, goes on serving the clients on its side. Fail-over of the database must
// end the old primary, or make its commits wait for its standbys.
package postgres
