// Package access decides who is at the other end of a connection and which calls they may make.
//
// An identity is a line in a file, found by the SHA-256 of the bearer token that was shown, or the
// subject of a client certificate:
//
//	O = "bursar:" and the role, CN = the name; of an agent its host's id, of a submitter the user it acts as
//
// Both give an identity.Actor. Which calls its role may make is one table, RuleOf. Which users and
// which host's allocations it may touch with them is in the Actor, and checked by the code that
// knows the message.
//
// Tokens are made here of 32 random bytes. That is why a plain SHA-256 keeps them: unlike a
// password, such a token cannot be guessed or tried out. It is also why they are found by the hash
// in a map, without comparing in constant time: the time tells something about the hash of what
// was sent, and nobody can choose what to send so that its hash comes closer to one in the file.
//
// An Authenticator and a File may be used by many goroutines; Identities and rules do not change.
package access
