package ledger

// TokenHash is the SHA-256 of an identity token; empty: no token. A coordinator gives the agent a
// new token at each registration. The agent keeps it in its state directory, so the token tells
// that directory from a copy, wherever the agent runs. Only hashes are stored.
type TokenHash string

// proof is the evidence of an agent's token about its state directory.
type proof uint8

const (
	// unproven: the agent shows no token, or the host has none yet. An agent of an older version
	// shows none, nor does one whose state directory was lost.
	unproven proof = iota
	// proven: it is the directory that the host's last agent used.
	proven
	// provenOther: it is another one, or a copy. It is also the right one if the coordinators'
	// store was put back to an earlier state, or if the agent could not store its last token.
	provenOther
)

func (h *host) proofOf(token TokenHash) proof {
	switch {
	case token == "" || h.Token == "":
		return unproven
	case token == h.Token || token == h.TokenBefore:
		return proven
	}
	return provenOther
}

// isKnownRun reports whether a registration comes from the agent that has registered the host, or
// from one that ran in the same place before. A late call of the first may have changed the token.
// The other was replaced: it hears so, and ends.
func (h *host) isKnownRun(c *RegisterCommand) bool {
	return c.Incarnation <= h.Incarnation && h.isSameBoot(c) && validText(c.PIDNamespace) == h.PIDNamespace
}

// isQuiet reports whether the host's known agent has missed a report. An agent that varies its
// interval by a tenth has not.
func (l *Ledger) isQuiet(h *host) bool { return h.lastSync.Add(l.Interval()*5/4) <= l.now }

// renewToken gives the agent that registers its next token. The token that it has shown counts
// until the agent has got the next one.
func (h *host) renewToken(c *RegisterCommand) {
	if c.NextToken != "" {
		h.Token, h.TokenBefore = c.NextToken, c.Token
	}
}

// tokenArrived ends the time in which the token before counts: an agent reports everything only
// after it has got the answer to its registration.
func (l *Ledger) tokenArrived(h *host) {
	if h.TokenBefore != "" {
		h.TokenBefore = ""
		l.recordHost(h)
	}
}
