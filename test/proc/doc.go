// Package proc is what tests need to run programs: a process with its output, a build of a
// program, waiting for what has no channel to wait on, a free address, and a guardian that clears
// away after a test that was killed. Programs that start servers for people, and bench, use parts
// of it.
//
// It knows two things of Bursar: the words that no server of it may print, and the folder that its
// programs are built from. It makes no networks and no databases: see test/netlab, test/postgres
// and test/consul.
//
// An Output is safe for concurrent use. A Process is started and ended by one goroutine at a time;
// others may ask whether it runs. What takes a testing.TB to fail ends the test, so that it is for
// the test's own goroutine, but for Run and Kill, which may be called from any.
package proc
