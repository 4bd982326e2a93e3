package ledger

import (
	"crypto/sha256"
	"encoding/hex"
)

// Refusal is a command that made the ledger panic, and is refused from then on. It is kept with the ledger's rows; the ledger itself does not look
// at it.
type Refusal struct {
	// Procedure and Caller are of the command; Cause is what the panic said.
	Procedure, Caller, Cause string
	Hash                     [sha256.Size]byte
	At                       Instant
	// Version is of the coordinator that panicked: another one may not.
	Version string
}

// ID is enough of the hash to tell refusals apart.
func (r *Refusal) ID() string { return hex.EncodeToString(r.Hash[:8]) }
