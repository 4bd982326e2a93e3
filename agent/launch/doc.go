// Package launch starts engines, each under a keeper of its own, and reads how they ended. It is the agent's side of package keeper: the
// protocol of the pipes, the folder of a record, who a user of the machine is, and what an engine's environment and logs are by default.
//
// It decides nothing about who may start what, and knows nothing of allocations but their ids. Nothing of a request is done as the
// agent's own user: the keeper, which runs as the engine's, looks for the program, changes to the directory and opens the logs.
//
// A Launcher may be used by several goroutines at once, for different ids; a Starting by one at a time.
package launch
