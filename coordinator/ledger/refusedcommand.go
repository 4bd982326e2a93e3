package ledger

import (
	"crypto/sha256"
	"encoding/hex"
	"strings"
)

// Refusal is a command that made the ledger panic and is refused from then on. It is stored with
// the ledger's rows; the ledger itself does not use it.
type Refusal struct {
	// Procedure and Caller are those of the command; Cause is the text of the panic.
	Procedure, Caller, Cause string
	Hash                     [sha256.Size]byte
	At                       Instant
	// Version is that of the coordinator that panicked: another version may not panic.
	Version string
	// Unversioned: its row was written before ids had the version in them.
	Unversioned bool
}

// ID is the key of its row: enough of the command's hash, and of the version's, to tell refusals
// apart. Each version has its own refusals, so that two versions that lead in turns do not replace
// each other's.
func (r *Refusal) ID() string {
	command := hex.EncodeToString(r.Hash[:8])
	if r.Unversioned {
		return command
	}
	// in the form that is stored
	version := sha256.Sum256([]byte(strings.ToValidUTF8(r.Version, "\uFFFD")))
	return command + "-" + hex.EncodeToString(version[:4])
}

// Same reports whether both refuse the same command of the same version.
func (r *Refusal) Same(other *Refusal) bool {
	return r.Hash == other.Hash && r.Version == other.Version
}
