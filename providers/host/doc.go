// Package host measures its own machine, and the engines on it, for the agent.
//
// A [Meter] answers three questions. [Meter.Capacity]: how much can engines ever get here? That is
// the machine's size, capped by every cgroup limit on the path from this process to the root.
// [Meter.Sample]: how much is free now, how busy is the machine, and is it under memory pressure?
// [Meter.Engines]: how much does each engine use? The figures come from the engine's own cgroup if
// it has one, otherwise from its process tree. [Meter.Identify] and [Meter.CgroupOf] identify a
// process, so that a reused pid is never mistaken for the engine.
//
// Unknown figures are never zero. If a source cannot be read, its fields are nil and
// Sample.Degraded has an entry; all other fields remain valid.
//
// The package makes no decisions: it has no notion of allocations, quotas or headroom, and starts
// or ends no process. It reads only below Options.Root, and writes nothing.
//
// Concurrency: Capacity, Available, BootID, Identify, CgroupOf and OwnCgroup may be called at any
// time from any goroutine. Sample and Engines remember their last call to compute the use since
// then. So each of the two belongs to one goroutine at a time; a Sample may run at the same time as
// an Engines. No call blocks for long. A read that takes a lock of the measured process can hang
// with that process. Such a read runs in a separate goroutine; there is at most one, and it may
// outlive the call.
package host
