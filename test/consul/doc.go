// Package consul runs real Consul servers for tests: one, or several that are a cluster. They can
// be stopped, killed, paused, continued and started again with their data. It stands on a low
// floor, so that the tests of every package can use it. It knows nothing of Bursar, and its
// servers end with the process that started them, in whatever way that ends.
//
// The server is the one that `make tools` builds. Its timings are those of a local network: it is
// up within about two seconds, and sees that another agent has died within about one.
//
// A Server's methods are for one goroutine; its fields do not change.
package consul
