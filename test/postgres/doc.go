// Package postgres runs a real PostgreSQL server for a test or a benchmark, and does to it what happens to servers: it is
// killed, stopped and continued, restarted, backed up and restored.
//
// A Server keeps all it has in one directory and answers on a loopback port and on a socket in that directory, to anybody, or to
// those who know the password where one is set. Commits are synced as in production. Where this process is root, which
// PostgreSQL refuses to be, the server runs as the user postgres or nobody. When this process ends, however it ends, the server and its
// directory go with it. The package installs nothing: a missing server is an error that says what to install.
//
// A Server's methods are for one goroutine, DSN excepted.
package postgres
