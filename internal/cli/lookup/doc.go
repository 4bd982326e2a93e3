// Package lookup asks a server which allocations, hosts, queues and rules a user means: by the
// beginning of an id, by a filter, or by the completion of a shell. It changes nothing.
package lookup
