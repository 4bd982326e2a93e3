// Package statefile keeps what an agent must know again after its own restart: which engines run,
// with their full grants, which ended without the coordinator knowing, the highest epoch, and the
// number of its incarnation.
//
// The state file is JSON in a versioned envelope with a checksum. It is replaced as a whole
// (written next to it, synced, renamed, the directory synced), so that a crash or a full disk
// leaves the old one or the new one. What happens from then on is appended to a log that the file
// names, a record for each change, until that has outgrown the file: so a change costs the same
// however many engines there are. A record that a crash cut off at the log's end is left out; any
// other damage is found. A lock in the directory, and one on its name, keep a second agent out. A
// directory that other users could change is refused.
//
// The package knows no process and no coordinator. A Dir belongs to one goroutine at a time;
// Encode and Decode may be called from any.
package statefile
