// Package auth stands between a coordinator's listener and its services. It authenticates the
// caller by token, certificate or the user at the other end of a local connection, and authorizes
// the call. It bounds the use of each caller, and of all together. It removes from answers the data
// that the caller may not see, and writes the audit log.
//
// NewHandler does all checks before the body is read. Auditor and Limits are interceptors, which
// see messages. Services call CallerOf and ActorOf to get the caller.
//
// The table of permissions is in internal/access. The ledger decides whose allocation a caller may
// end. The coordinator passes in the function that maps errors to codes, and the one that selects
// errors for the audit log.
//
// Any goroutine may use the exported types.
package auth
