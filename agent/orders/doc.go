// Package orders carries out the orders that a coordinator's leader sends to the agent of a host.
// The agent opens the stream of orders, so no host listens for them.
//
// A coordinator decides which engine starts on which host. The host decides whether it allows the
// launch: this package launches an engine only as an account that the agent's own file names, and
// only for a grant from an answer to the agent's own Sync. A malicious or stolen coordinator can
// run code only as these accounts.
//
// The steps of a launch are the same as for local callers (package engine): a process that waits,
// Confirm, a record that the engine may have run, and only then the program. The agent answers
// orders by HostService.Answer. A repeated order gets the same answer.
package orders
