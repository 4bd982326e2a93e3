// Package contain gives engines cgroups of their own and keeps their limits in step with what they
// are entitled to. It says which processes belong into an engine's cgroup, which engines the
// kernel has killed for lack of memory, and whose memory it was.
//
// It does not make cgroups itself (packages agent/cgroup and agent/unit do), and it never ends a
// process. It reads what an engine is entitled to from the tracker, which is handed in with all
// else that it needs of an agent: see Options. If something fails, that is logged and counted, and
// the engine goes on as it is.
//
// The methods of Cgroups may be called by several goroutines at a time. Exceptions are Loop, which
// is called once, and Close, which is called when everything else has ended.
package contain
