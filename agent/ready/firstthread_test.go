package ready_test

import "runtime"

// lockFirstThread keeps the main goroutine on the first thread of the process.
func lockFirstThread() { runtime.LockOSThread() }
