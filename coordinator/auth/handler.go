package auth

import (
	"net/http"

	"connectrpc.com/connect"

	"github.com/bursar/bursar/internal/access"
)

// HandlerOptions are what NewHandler needs.
type HandlerOptions struct {
	// Next answers the requests that are let through.
	Next http.Handler
	// Known are those who may call, and how they are recognized.
	Known *access.Authenticator
	// Insecure believes every caller from another machine, if no identities are known.
	Insecure bool
	// LocalMayLaunch are the accounts as which users of this machine may have engines launched, if
	// no identities are known.
	LocalMayLaunch []string
	// Limits bound what a caller may have at a time. They are used by one handler.
	Limits *Limits
	// Audit takes the records of refused calls.
	Audit *AuditLog
	// Timeouts bound how long a request may take. They are read at each of them.
	Timeouts *Timeouts
	// Code gives an error the code and the details that callers see. It returns an error that has
	// them as it is.
	Code func(error) error
}

// NewHandler returns the handler that every request passes before Next. It bounds the request,
// finds out who makes it and whether they may, and counts it. It answers what it refuses.
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
