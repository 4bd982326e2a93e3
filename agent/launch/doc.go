// Package launch starts engines, each under a keeper of its own, and reads how they ended. It is
// the agent's side of package keeper: the protocol of the pipes, the folder of a record, and the
// defaults of an engine's environment and logs.
//
// It does not decide who may start what, and it knows only the ids of allocations. Nothing of a
// request is done as the agent's own user: the keeper, which runs as the engine's user, looks for
// the program, changes to the directory and opens the logs.
//
// A Launcher may be used by several goroutines at once, for different ids; a Starting by one at a
// time.
package launch
