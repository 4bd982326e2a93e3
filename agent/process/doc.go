// Package process watches the processes of engines: it waits for their end, reads how they ended,
// and signals them. It never takes another process for one of them. A process is identified by its
// pid and its start time: within one boot no two have the same. If the kernel has pidfds (5.10 and
// later), a Handle holds one, so reuse of the pid cannot mislead it. Otherwise the start time is
// read right before each signal, and every 200 ms during a wait.
//
// # Whom Stop signals
//
// An engine is its root process and the descendants of the root. Only two facts prove descent:
//
//   - The chain of parents leads to the root, or to a process that was proven before. A parent is
//     no younger than its child: if it is, it has only reused the pid of the real parent. The
//     caller, which measures the engine, passes in the descendants that it saw
//     (Engine.Descendants): so Stop finds processes that have left the tree and the session since. If the engine has a
//     reaper (Engine.Reaper), the chain leads to the reaper, even if most of the tree has ended.
//   - The process is in the session that the root leads, and started while that session existed:
//     not before the root, and not after the root or another process of the session was last seen
//     (Engine.LastAlive). A process can only enter a session at its birth. The kernel can reuse the
//     session's number once the last process of the session has ended; the start times tell the
//     processes of such a later session apart. In each round, right before each signal and every
//     200 ms while it waits, Stop reads which processes run and whether they are still in the
//     session. The end of a process proves nothing. A process group proves nothing either: other
//     processes of the session may join it.
//
// Stop signals a descendant only if the engine's user could have done so, too: its real uid must be
// that of the root process at Confirm. So a program that became root (by sudo) or another user
// stays. If the engine runs as root, Stop signals all of its descendants.
//
// Stop also signals the members of the engine's cgroup. If the agent made the cgroup, and only root
// and the agent can write to it (Engine.Guarded), all members are the engine's: only a process of
// the engine, the agent or root can have added them. In any other cgroup only the processes of the
// engine's user are the engine's. If that user is root, only descendants are.
//
// Both identities, pid with start time and session number with age, rest on one assumption: the
// kernel does not reuse a number within the clock tick (10 ms) in which its last holder was seen.
// The kernel hands out all other numbers first.
//
// Stop reads uid and cgroup again right before each signal, with the process open by its pidfd. It
// never signals this process, the ancestors of this process, or init. It leaves processes alone
// that may be the engine's without proof, and its error names them.
//
// # How Stop kills
//
// Processes that fork and exit are faster than a reader of the process table. If the engine's
// cgroup can be frozen (Engine.Freezer), Stop freezes it, sends SIGKILL to all members, and thaws
// it, until no process is left, for at most 20 rounds. The parent of the root process, if it is a
// member, is the engine's keeper: it gets SIGKILL only if it still runs 5 s after all others have
// ended. Stop always thaws the cgroup before it returns, and its error names the cgroup if that
// fails. Processes outside of the cgroup, and engines without such a cgroup, get SIGKILL as they
// are found, for at most 250 rounds. SurvivedError names the last processes.
//
// A Stop has at most 256 processes open at a time. All Stops together use at most a quarter of this
// process's file descriptors.
//
// The package does not measure or decide: its callers choose the engine to end, and the time.
//
// Other goroutines may signal, touch and close a Handle while one goroutine waits for its end.
// Close ends the wait.
package process
