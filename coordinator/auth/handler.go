package auth

import (
	"net/http"

	"connectrpc.com/connect"

	"github.com/bursar/bursar/internal/access"
)

// HandlerOptions configure NewHandler.
type HandlerOptions struct {
	// Next answers the admitted requests.
	Next http.Handler
	// Known authenticates callers.
	Known *access.Authenticator
	// Insecure trusts every caller from another machine, if no identities are configured.
	Insecure bool
	// LocalMayLaunch are the accounts under which users of this machine may launch engines, if no
	// identities are configured.
	LocalMayLaunch []string
	// Limits bound each caller. One handler uses them.
	Limits *Limits
	// Audit records the refused calls.
	Audit *AuditLog
	// Timeouts bound the time of a request. Each request reads them.
	Timeouts *Timeouts
	// Code adds the code and the details for callers to an error. It returns an error that has them
	// unchanged.
	Code func(error) error
}

// NewHandler returns the handler that every request passes before Next. It bounds, authenticates,
// authorizes and counts the request, and answers it if it is refused.
func NewHandler(o HandlerOptions) http.Handler {
	refuse := connect.NewErrorWriter()
	o.Limits.next = o.Next
	return &requestLimits{
		next: &authenticator{
			next: o.Limits, who: o.Known, insecure: o.Insecure, machine: o.Limits.machine, audit: o.Audit, code: o.Code, refuse: refuse,
			localMayLaunch: o.LocalMayLaunch, denied: o.Limits.serveDenied,
		},
		time: o.Timeouts, largest: o.Limits.Largest, refuse: refuse, audit: o.Audit, code: o.Code,
	}
}
