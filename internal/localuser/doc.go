// Package localuser knows the users of this machine by their uids: their names, and the users who
// are charged for them. Agents use it for callers on their socket, coordinators for callers on
// loopback.
//
// It bounds how often a directory of users (LDAP, for example) is asked, however many uids come,
// and remembers the answers. It decides nothing about rights. Its types may be used by several
// goroutines at a time.
package localuser
