// Package lookup asks a server which allocations, hosts, queues and rules a user means: by the
// beginning of an id, by a filter, or by what the shell completes. It changes nothing.
package lookup
