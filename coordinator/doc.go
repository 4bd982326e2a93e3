// Package coordinator is the server that keeps the ledger. It takes the calls of agents, gateways
// and operators, has the ledger decide them one after the other, makes the decisions durable, and
// only then answers.
//
// The packages below do the work. Package ledger decides, core turns commands into batches, commit
// runs the loop, calls the store and campaigns for the lead, clusters reads external clusters, auth
// identifies callers and checks their rights, forward passes calls on to the leader, wire
// translates messages. This package puts them together. It holds the services, whose procedures run
// in the goroutine of each call; the mapping of errors to codes, once; the routes with health and
// metrics; the configuration and its reload; and the files of quotas, providers and identities.
// Server puts all of that behind one port.
//
// The package decides nothing about resources, knows no SQL, and keeps no table of permissions
// (that is internal/access's).
//
// All exported methods of Server may be called from several goroutines, except Run, Serve and
// Reload, as they say.
package coordinator
