// Package osuser finds the accounts of this machine: their ids, groups, home and shell. It reads
// the files, and asks the name service with getent(1) and id(1), which use the C library.
//
// It does not say what an account may do. Its functions may be called by several goroutines at a
// time.
package osuser

import "errors"

// User is an account of this machine.
type User struct {
	Name     string
	UID, GID uint32
	// Groups are all of its groups, GID too.
	Groups      []uint32
	Home, Shell string
	// Accountless: the machine knows its uid by no name.
	Accountless bool
}

// ErrNoUser says that the machine knows no such account.
var ErrNoUser = errors.New("no such user")
