// Package contain gives engines cgroups of their own and updates the limits when an entitlement
// changes. It decides which processes belong in an engine's cgroup. It also reports which engines
// the kernel killed for lack of memory, and whether the engine's limit or the machine's memory was
// reached.
//
// Packages agent/cgroup and agent/unit make the cgroups. This package never ends a process. The
// agent passes in the tracker, which holds the entitlements, and all other dependencies: see
// Options. A failure is logged and counted, and the engine runs on unchanged.
//
// The methods of Cgroups are safe for concurrent use. Exceptions are Loop, which is called once,
// and Close, which is called after all other calls have returned.
package contain
