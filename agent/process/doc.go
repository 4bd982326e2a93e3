// Package process holds on to the processes of engines: it waits for their end, tells how they ended, and signals them, and never
// takes another process for one of them. A process is its pid with its start time: within one boot no two have the same. Where the
// kernel has pidfds (5.10 and later) a Handle is one, and there is no moment in which the pid could have changed hands; elsewhere
// the start time is looked at right before each signal, and every 200 ms while waiting.
//
// # Whom Stop signals
//
// An engine is its root process and what descends from it. Two things prove descent, and nothing else does:
//
//   - The way from parent to parent leads to the root, or to a process that was proven before. A parent is no younger than its child:
//     one that is has only got the pid of the real one.
//   - The process is in the session that the root leads, and started when that session was there: not before the root, and not after
//     the root or another process of the session was last seen (Engine.LastAlive). A process gets into a session at its birth alone. So
//     what is in a session of the same number, which the kernel gives away anew once the last process of the old one has gone, is known
//     by its age. Stop sees who is there at each look, right before each signal and every 200 ms while it waits, and each time reads
//     anew whether it is still in the session; that somebody has ended says nothing. A process group proves
//     nothing: others of the session may join it.
//
// Whatever descends is signalled only as the engine's user, who could have done it too: its real uid must be that of the root process at
// Confirm, so that a program that became root (by sudo) or somebody else stays. An engine of root is beyond nobody: all of its
// descendants are signalled.
//
// The members of the engine's cgroup are signalled too. Those of a cgroup that the agent made and nobody but root and the agent can
// write to are the engine's, whoever they are (Engine.Guarded): only an engine's process, or root, brings another one there. In any other
// cgroup only processes of the user are, and of an engine of root none but descendants.
//
// That no two processes have the same pid and start time, and that a session's age tells it from a later one of its number, rests on one
// thing: no number comes again within the clock tick (10 ms) in which its last holder was seen. The kernel gives all others away before.
//
// Uid and cgroup are looked at again right before each signal, with the process held by its pidfd. This process and those above it are
// never signalled, nor is init. What may be the engine's and is not proven to be is left alone, and the error of Stop names it.
//
// A Stop holds at most 256 processes at a time, and all together a quarter of the file descriptors that this process may have.
//
// The package measures nothing and decides nothing: which engine to end, and when, is told.
//
// A Handle may be signalled, touched and closed while one goroutine waits for its end; Close ends the wait.
package process
