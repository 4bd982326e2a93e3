// Package keeper is the program that supervises one launched engine: it starts the engine's
// command, copies its output into log files, and writes down how it ended. It runs as the engine's
// user, and outlives the agent that started it.
//
// It imports the standard library and golang.org/x/sys alone: there is one of these processes per
// engine, so its memory counts once for each. It decides nothing: who may run what, where and with
// which limits is decided before it starts.
//
// The agent hands it three descriptors: 0 is a pipe on which it reads a line with a Spec, and
// later the line Confirmed; 1 is a pipe on which it answers a line with Started and which it
// closes then; 2 is the record, a file that it appends a Record to when the engine has ended. If 0
// ends before the line Confirmed, no agent knows of the engine, and it is ended.
//
// An engine ends with its last process. The keeper is a child subreaper: the kernel gives it what
// the engine's processes leave behind, so that it sees the end of each. If the main process ends
// and others live on, the keeper appends a Record that says so, and goes on.
//
// The keeper is in the engine's cgroup. A Stop that ends all processes of the cgroup spares it
// until it has written the record, for a few seconds.
//
// Started with the arguments of package reading's Mode, the program is no keeper: it reads the
// output of an engine for an agent, as the engine's user.
//
// Main is called once in a process. The types may be used from anywhere.
package keeper
