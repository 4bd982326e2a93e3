// Package loops has the parts that the agent's loops share: when a loop is due (Wakeup), when
// something last happened (Moment), how goroutines wait for the next time that it happens (Signal),
// and whether a loop hangs (Watched).
//
// It runs no loop and starts no goroutine. All of it may be used by any goroutine.
package loops
