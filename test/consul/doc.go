// Package consul runs real Consul servers for tests: one, or several that are a cluster. They can
// be stopped, killed, paused, continued and started again with their data. It imports no package of
// Bursar's core, so that the tests of every package can use it. Its servers end with the process
// that started them, even if that process is killed.
//
// The server is the one that `make tools` builds. It has the timings of a local network: it is up
// within about two seconds, and notices another agent's death within about one.
//
// Only one goroutine may call a Server's methods. Its fields do not change.
package consul
