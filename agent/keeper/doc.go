// Package keeper is the program that supervises one launched engine: it starts the engine's
// command, copies its output into log files, and writes down how it ended. It runs as the engine's
// user, and outlives the agent that started it.
//
// It imports only the standard library and golang.org/x/sys: there is one keeper per engine, so its
// memory counts once for each. It makes no decisions: the agent checks permissions, placement and
// limits before it starts a keeper.
//
// The agent passes three descriptors. On 0, a pipe, the keeper reads a line with a Spec, and later
// the line Confirmed. On 1, a pipe, it answers a line with Started, and then closes it. To 2, the
// record file, it appends a Record when the engine has ended. If 0 ends before the line Confirmed,
// no agent knows of the engine, and the keeper ends it.
//
// An engine ends with its last process. The keeper is a child subreaper: it becomes the parent of
// the engine's orphaned processes, so that it sees the end of each. If the main process ends and
// others live on, the keeper appends a Record of this, and goes on.
//
// The keeper is in the engine's cgroup. A Stop that ends all processes of the cgroup spares it
// until it has written the record, for a few seconds.
//
// Started with the arguments of package reading's Mode, the program is no keeper: it reads the
// output of an engine for an agent, as the engine's user.
//
// Main is called once in a process. The types may be used from anywhere.
package keeper
