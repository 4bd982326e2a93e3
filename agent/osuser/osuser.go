// Package osuser has the names that agent/launch uses of internal/osuser, which agents share with
// coordinators. It has nothing of its own.
package osuser

import "github.com/bursar/bursar/internal/osuser"

// User is that of internal/osuser.
type User = osuser.User

// Users is that of internal/osuser.
type Users = osuser.Users

// ErrNoUser is that of internal/osuser.
var ErrNoUser = osuser.ErrNoUser

// Self is that of internal/osuser.
func Self() User { return osuser.Self() }

// Nameless is that of internal/osuser.
func Nameless(name string, uid, gid uint32) User { return osuser.Nameless(name, uid, gid) }
