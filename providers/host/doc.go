// Package host measures the machine it runs on, and the engines on it, for the agent.
//
// A [Meter] answers three questions. [Meter.Capacity]: how much may ever be given away here (the
// machine's size, capped by every cgroup limit on the path from this process to the root).
// [Meter.Sample]: how much is free now, how busy the machine is and whether it is under memory
// pressure. [Meter.Engines]: what each engine uses, from its own cgroup if it has one, else from
// its process tree. [Meter.Identify] and [Meter.CgroupOf] say who a process is, so that a pid that
// was given to another process is never taken for the engine.
//
// Known figures are measured. Unknown ones are said to be unknown, never zero: a source that
// cannot be read leaves its fields nil with an entry in Sample.Degraded, and everything else
// stays.
//
// The package decides nothing: it knows no allocation, quota or headroom, starts nothing and ends
// nothing. It reads only below Options.Root, and writes nowhere.
//
// Concurrency: Capacity, Available, BootID, Identify, CgroupOf and OwnCgroup may be called at any
// time from any goroutine. Sample and Engines remember their last call to tell what was used
// since, so each of the two belongs to one goroutine at a time; a Sample may run at the same time
// as an Engines. Nothing here waits for long. What takes a lock of the process that is looked at
// can hang with it: it is read in a goroutine of its own, of which there is at most one, and which
// may outlive the call.
package host
