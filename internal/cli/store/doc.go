// Package store has the commands on the store of a coordinator that does not run: they show it,
// copy it, set rows aside and raise its epoch. They call no server.
package store
