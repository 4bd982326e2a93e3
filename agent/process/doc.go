// Package process watches the processes of engines: it waits for their end, says how they ended,
// and signals them. It never takes another process for one of them. A process is its pid with its
// start time: within one boot no two have the same. If the kernel has pidfds (5.10 and later), a
// Handle is one, and at no moment could the pid be another process's. Else the start time is read
// right before each signal, and every 200 ms while waiting.
//
// # Whom Stop signals
//
// An engine is its root process and what descends from it. Two things prove descent, and nothing
// else does:
//
//   - The way from parent to parent leads to the root, or to a process that was proven before. A
//     parent is no younger than its child: if it is, it has only got the pid of the real one. Who
//     measures the engine tells which were (Engine.Descendants): with them is found what has left
//     the tree and the session since. If the engine has a reaper (Engine.Reaper), the way leads to
//     that, however much of the tree has ended.
//   - The process is in the session that the root leads, and started when that session was there:
//     not before the root, and not after the root or another process of the session was last seen
//     (Engine.LastAlive). A process gets into a session at its birth alone. The kernel can give the
//     session's number away again once the last process of the session has gone; the processes of
//     such a later session are known by their age. Stop sees which processes are there in each
//     round, right before each signal and every 200 ms while it waits, and each time reads whether
//     they are still in the session. That a process has ended says nothing. A process group proves
//     nothing: others of the session may join it.
//
// A descendant is signalled only if the engine's user could have done it too: its real uid must be
// that of the root process at Confirm. So a program that became root (by sudo) or another user
// stays. If the engine is root's, all of its descendants are signalled.
//
// The members of the engine's cgroup are signalled too. If the agent made the cgroup, and only
// root and the agent can write to it, all members are the engine's (Engine.Guarded): only an
// engine's process, or root, brings another one there. In any other cgroup only the processes of
// the engine's user are the engine's. If that user is root, only descendants are.
//
// That no two processes have the same pid and start time, and that a session's age tells it from a
// later one of its number, rests on one thing: no number comes again within the clock tick (10 ms)
// in which its last holder was seen. The kernel gives all others away before.
//
// Uid and cgroup are read again right before each signal, with the process open by its pidfd.
// This process and those above it are never signalled, nor is init. What may be the engine's and
// is not proven to be is left alone, and the error of Stop names it.
//
// # How Stop kills
//
// Processes that fork and exit are faster than a reader of the process table. If the engine's
// cgroup can be frozen (Engine.Freezer), Stop freezes it, sends SIGKILL to all members, and thaws
// it, until nobody is left, for at most 20 rounds. The parent of the root process, if it is a
// member, is the engine's keeper: it gets SIGKILL only if it is still there 5 s after all others.
// Stop thaws the cgroup however it ends, and names it if that fails. Processes outside of the
// cgroup, and engines without such a cgroup, get SIGKILL as they are found, for at most 250 rounds.
// SurvivedError names the last ones.
//
// A Stop has at most 256 processes open at a time, and all together take a quarter of the file
// descriptors that this process may have.
//
// The package measures nothing and decides nothing: its callers say which engine to end, and when.
//
// A Handle may be signalled, touched and closed while one goroutine waits for its end; Close ends
// the wait.
package process
