// Package proc runs programs for tests. It has processes with their output, builds of programs,
// polling of conditions, free addresses, and a guardian that cleans up after a killed test.
// Programs that start servers for people, and bench, use parts of it.
//
// It knows two things about Bursar: the words that none of its servers may print, and the folder
// that its programs are built from. It makes no networks and no databases: see test/netlab,
// test/postgres and test/consul.
//
// An Output is safe for concurrent use. One goroutine at a time may start and end a Process; others
// may ask whether it runs. Functions that take a testing.TB end the test if they fail, so they are
// for the test's own goroutine. Only Run, Await and Kill may be called from any goroutine.
package proc
