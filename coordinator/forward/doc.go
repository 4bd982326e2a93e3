// Package forward passes the calls that a coordinator does not decide itself on to the leader.
// Peers follow the election, and ask the leader now and then whether it takes calls from here. An
// Interceptor passes calls on.
//
// It takes no part in the election, leads nothing, and answers no call by itself: whether this
// coordinator leads, and why it refuses calls, is handed in.
package forward
