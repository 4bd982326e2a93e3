// Package access authenticates callers and decides which calls each role may make.
//
// An identity is an entry in a file, found by the SHA-256 of the caller's bearer token, or the
// subject of a client certificate:
//
//	O = "bursar:" and the role, CN = the name; of an agent its host's id, of a submitter the user it acts as
//
// Both give an identity.Actor. RuleOf is the one table of the calls that each role may make. The
// Actor names the users that it may act as and the host whose allocations it may touch. The code
// that knows the message checks these.
//
// The package makes tokens of 32 random bytes. Unlike a password, such a token cannot be guessed or
// tried out, so a plain SHA-256 protects it in the file. The lookup by hash in a map does not
// compare in constant time. Its time reveals something about the hash of the token in the request,
// but an attacker cannot choose a token whose hash comes closer to one in the file.
//
// An Authenticator and a File may be used by many goroutines; Identities and rules do not change.
package access
