// Package launch starts engines, each under a keeper of its own, and reads how they ended. It is
// the agent's counterpart of package keeper: it has the protocol of the pipes, the folder of a
// record, and the defaults of an engine's environment and logs.
//
// It does not authorize launches, and it knows only the ids of allocations. The agent's own user
// executes no part of a request: the keeper, which runs as the engine's user, finds the program,
// changes to the directory and opens the logs.
//
// Several goroutines may use a Launcher at once, for different ids. Only one goroutine at a time
// may use a Starting.
package launch
