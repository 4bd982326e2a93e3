// Package cmdline has the parts with which all commands read their command line: an Invocation
// with its streams and its connections, positional arguments, types of flags, their bounds and the
// words for mistakes in them, and the signals that interrupt a command. It makes no call.
package cmdline
