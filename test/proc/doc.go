// Package proc is what tests need to run programs: a process with its output, a build of a
// program, waiting for a condition without a channel, a free address, and a guardian that cleans
// up after a test that was killed. Programs that start servers for people, and bench, use parts of
// it.
//
// It knows two things of Bursar: the words that no server of it may print, and the folder that its
// programs are built from. It makes no networks and no databases: see test/netlab, test/postgres
// and test/consul.
//
// An Output is safe for concurrent use. A Process is started and ended by one goroutine at a time;
// others may ask whether it runs. Functions that take a testing.TB end the test if they fail, so
// they are for the test's own goroutine. Only Run, Await and Kill may be called from any
// goroutine.
package proc
