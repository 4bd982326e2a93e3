// Package postgres runs a real PostgreSQL server for a test or a benchmark, and subjects it to the
// events in a server's life: it is killed, stopped and continued, restarted, backed up and
// restored.
//
// A Server keeps all of its files in one directory, and listens on a loopback port and on a socket
// in that directory. It accepts all connections, or only those with the password if there is one.
// Commits are synced as in production. If this process is root, which PostgreSQL refuses to run as,
// the server runs as the user postgres or nobody. When this process ends, in any way, the server
// and its directory are removed. The package installs nothing: if PostgreSQL is missing, the error
// names the packages to install.
//
// A Server's methods, except DSN, are for one goroutine.
package postgres
