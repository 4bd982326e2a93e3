// Package osuser finds the accounts of this machine: their ids, groups, home and shell. It reads
// the files, and asks the name service with getent(1) and id(1), which use the C library.
//
// It does not authorize accounts. Its functions are safe for concurrent use.
package osuser

import "errors"

// User is an account of this machine.
type User struct {
	Name     string
	UID, GID uint32
	// Groups are all of its groups, GID included.
	Groups      []uint32
	Home, Shell string
	// Accountless is set if the machine has no name for the uid.
	Accountless bool
}

// ErrNoUser says that the machine has no such account.
var ErrNoUser = errors.New("no such user")
