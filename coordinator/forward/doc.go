// Package forward forwards the calls that only the leader can decide. Peers follow the election,
// and probe at intervals whether the leader accepts calls of this coordinator. An Interceptor
// forwards the calls.
//
// The package takes no part in the election and answers no call itself. Its user passes in whether
// this coordinator leads, and why it refuses calls.
package forward
