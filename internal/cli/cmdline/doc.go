// Package cmdline is what all commands share to read their command line: an Invocation with its
// streams and its connections, positional arguments, types of flags, their bounds and what a user
// reads about a mistake in them, and the signals that interrupt a command. It makes no call.
package cmdline
