// Package contain gives engines cgroups of their own and keeps their limits in step with what they are entitled to. It says which
// processes belong into an engine's cgroup, which engines the kernel has killed for lack of memory, and whose memory it was.
//
// It does not make cgroups itself (packages agent/cgroup and agent/unit do), and it never ends a process. What an engine is entitled to it
// reads from the tracker, which is handed in with the other things that it asks of an agent: see Options. Whatever fails is logged and
// counted, and the engine goes on as it is.
//
// The methods of Cgroups may be called by several goroutines at a time, but for Loop, which is called once, and Close, which is called when
// everything else has ended.
package contain
