// Package hold starts commands in a held state: the process exists, with its pid, but executes
// nothing of the command until it is released. So a caller can move the process into a cgroup and
// record it before the command looks at its limits.
//
// The process starts as this program itself, with the command's arguments, files and environment.
// Its main function calls Wait first, which waits on a pipe and then replaces the program by the
// command. The pid, the parent, the process group and the terminal stay the same. If the starter
// ends first, the process ends and the command never begins.
//
// A Gate belongs to one goroutine. Other goroutines may call Abandon.
package hold
