package callers

import (
	"context"

	"github.com/bursar/bursar/proto/bursar/v1/bursarv1connect"
)

// New returns the API. Run must run while it is served.
func New(o Options) *API {
	return &API{
		state: o.State, engines: o.Engines, reports: o.Reports, cgroups: o.Cgroups, meter: o.Meter, opener: o.Opener,
		allocations: o.Allocations, waiting: o.Waiting, upstream: o.Upstream, users: o.Users, admit: o.Admit, settings: o.Settings,
		logs: o.Logs, measureDue: o.MeasureDue, syncDue: o.SyncDue, freshMemory: o.FreshMemory, vetoed: o.Vetoed, background: o.Background, outputRead: o.OutputRead, log: o.Log,
		waits: newWaitStreams(o.Waiting, o.Allocations, o.Background, o.Log), unconfirmed: make(map[string]*unconfirmed),
	}
}

// Run keeps the stream with which requests wait, until ctx ends.
func (a *API) Run(ctx context.Context) error { return a.waits.run(ctx) }

// Allocations serves AllocationService. stopping ends when the agent is about to: calls that wait
// for a grant are then answered.
func (a *API) Allocations(stopping context.Context) bursarv1connect.AllocationServiceHandler {
	return &service{API: a, stopping: stopping}
}

// EngineService serves EngineService. It needs callers that a socket shows. stopping ends when the
// agent is about to.
func (a *API) EngineService(stopping context.Context) bursarv1connect.EngineServiceHandler {
	return engineService{API: a, stopping: stopping}
}
