// Package hold starts commands that wait before they begin: the process is there, with its pid, and
// executes nothing of the command until it is let go. So the process can be put into a cgroup, and
// be made known, before the command looks at its limits.
//
// The process begins as this very program, with the command's arguments, files and environment. Its
// main function calls Wait first, which waits on a pipe and then replaces the program by the
// command. The pid, the parent, the process group and the terminal stay. If the starter ends, the
// process ends and the command never begins.
//
// A Gate belongs to one goroutine. Others may call Abandon.
package hold
