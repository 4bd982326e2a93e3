package auth

import (
	"net/http"

	"connectrpc.com/connect"

	"github.com/bursar/bursar/internal/access"
)

// HandlerOptions are what NewHandler needs.
type HandlerOptions struct {
	// Next answers what is let through.
	Next http.Handler
	// Known are those who may call, and what they are known by.
	Known *access.Authenticator
	// Insecure believes whoever comes from another machine, if nobody is known.
	Insecure bool
	// Limits bound what a caller may have at a time. They are used by one handler.
	Limits *Limits
	// Audit takes the records of refused calls.
	Audit *AuditLog
	// Timeouts bound how long a request may take. They are read at each of them.
	Timeouts *Timeouts
	// Code gives an error the code and the details that callers see; one that has them it returns as it is.
	Code func(error) error
}

// NewHandler returns what every request passes before Next: it bounds the request, finds out whose it is, and whether its
// caller may make it, and counts it. It answers what it refuses.
func NewHandler(o HandlerOptions) http.Handler {
	refuse := connect.NewErrorWriter()
	o.Limits.next = o.Next
	return &requestLimits{
		next: &authenticator{
			next: o.Limits, who: o.Known, insecure: o.Insecure, machine: thisMachine(), audit: o.Audit, code: o.Code, refuse: refuse,
			nameless: o.Limits.serveNameless,
		},
		time: o.Timeouts, largest: o.Limits.Largest, refuse: refuse, audit: o.Audit, code: o.Code,
	}
}
