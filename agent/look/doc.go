// Package look is the second mode of the program bursar-keeper: a helper that looks whether an
// engine is ready. A keeper starts it, so it runs as the engine's user and in the engine's cgroup.
//
// It reads a line with a keeper.HelperSpec from descriptor 0, and ends when that ends, with all
// that it has started. It writes a byte to descriptor 1 before each look and one after it, so that
// the keeper sees if it hangs. Descriptor 2 is the engine's record: the helper appends a
// keeper.Looked if the engine is ready, and if there is another reason than before why it is not.
// It ends with 0 when the engine is ready or the time is over.
//
// Main is called once in a process. Pattern may be used from anywhere.
package look
