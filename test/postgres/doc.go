// Package postgres runs a real PostgreSQL server for a test or a benchmark, and does to it what
// happens to servers: it is killed, stopped and continued, restarted, backed up and restored.
//
// A Server keeps all of its files in one directory and answers on a loopback port and on a socket
// in that directory. It answers everybody, or only those who know the password if there is one.
// Commits are synced as in production. If this process is root, which PostgreSQL refuses to be,
// the server runs as the user postgres or nobody. When this process ends, in whatever way, the
// server and its directory go with it. The package installs nothing: if a server is missing, the
// error says what to install.
//
// A Server's methods are for one goroutine, DSN excepted.
package postgres
