// Package offsets maps the bytes of an engine's output to the log files that hold them. The keeper
// writes the map with a Writer, into a small file next to the log files; a reader of the output
// reads it with an Index.
//
// An offset counts the bytes that the engine wrote on a stream since it started, over all files,
// with the bytes that the keeper could not store. The file of a stream is .STREAM.offsets. It has
// a header and a line for each Entry:
//
//	bursar-offsets 1 ALLOCATION KEEP
//	f INODE POSITION OFFSET MILLISECONDS
//
// The keeper appends to it, and replaces it by a shorter one from time to time. It holds a lock
// (flock) on the file, which says that the keeper lives. The engine's user owns the file and may
// write anything there, so that an Index checks and bounds everything.
//
// The package is part of a small program: it imports the standard library and golang.org/x/sys
// alone. A value belongs to one goroutine.
package offsets
