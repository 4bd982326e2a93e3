// Package statefile keeps what an agent must know again after its own restart: which engines run, with their full grants,
// which ended without the coordinator knowing, the highest epoch, and the number of its incarnation.
//
// The file is JSON in a versioned envelope with a checksum. It is replaced as a whole (written beside, synced, renamed, the
// directory synced), so that a crash or a full disk leaves the old one or the new one. A lock on the directory keeps a second
// agent out.
//
// The package knows no process and no coordinator. A Dir belongs to one goroutine at a time; Encode and Decode may be called
// from any.
package statefile
