// Package statefile keeps the state that an agent needs after its own restart: the running engines
// with their full grants, the ended ones that the coordinator does not know of, the highest epoch,
// and the number of the incarnation.
//
// The state file is JSON in a versioned envelope with a checksum. It is replaced as a whole
// (written next to the old one, synced, renamed, the directory synced), so that a crash or a full
// disk leaves the old one or the new one. Later changes are appended to a log that the file names,
// one record for each, until the log has outgrown the file: so a change costs the same however many
// engines there are. A record at the log's end that a crash cut off is ignored; any other damage is
// detected. A lock in the directory, and one on its name, exclude a second agent. A directory that
// other users could change is refused.
//
// The package knows no process and no coordinator. A Dir belongs to one goroutine at a time;
// Encode and Decode may be called from any.
package statefile
