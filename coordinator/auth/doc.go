// Package auth stands between a coordinator's listener and its services. It finds out who calls,
// by token, certificate or the user at the other end of a connection within this machine, and
// whether they may. It bounds what each caller, and all together, may have here at a time. It
// takes out of answers what their caller may not see, and writes the audit log.
//
// NewHandler does what can be done before a body is read. Auditor and Limits are interceptors that
// see messages. Services learn from CallerOf and ActorOf who calls.
//
// It has no table of permissions (that is internal/access's) and decides nothing about what is in
// the ledger: the ledger says whose allocation a caller may end. The codes of errors are handed
// in, and which of the coordinator's own errors are written down.
//
// What is exported may be used by any goroutine.
package auth
