// Package orders carries out the orders that a coordinator's leader sends to the agent of a host.
// The agent opens the stream that they come by, so no host listens for them.
//
// A coordinator decides which engine is started on which host. The host decides whether it may be:
// this package launches an engine only as an account that the agent's own file names, and only for
// a grant that came in an answer to the agent's own Sync. A coordinator that lies, or that was
// stolen, runs code as exactly these accounts.
//
// The steps of a launch are those of any other (package engine): a process that waits, Confirm, a
// note that it may have run, and only then the program. Their answers are calls of
// HostService.Answer. An order that is repeated is answered as before.
package orders
