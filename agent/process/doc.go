// Package process holds on to the processes of engines: it waits for their end, tells how they ended, and signals them, and never
// takes another process for one of them. A process is its pid with its start time. Where the kernel has pidfds (5.3 and
// later) a Handle is one, and there is no moment in which the pid could have changed hands; elsewhere the start time is looked at
// right before each signal, and every 200 ms while waiting.
//
// It measures nothing and decides nothing: which process to end, and when, is told.
//
// A Handle may be signalled and closed while one goroutine waits for its end; Close ends the wait.
package process
