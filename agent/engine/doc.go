// Package engine looks after the engines of a host. It launches them, watches their processes,
// takes part in each measurement, ends engines that it is ordered to stop, and finds out how they
// ended.
//
// The notes of the agent about one engine are one object (engine). The tracker has the engine
// itself and its measurements. One lock, that of package hoststate, guards both.
//
// Each part of an engine's life has a file of its own: launch and its keepers, watch, measure, the
// limit, over-use, the end of the main process, stop, release, the end. A part that acts at
// measurements is a hook; measure.go lists the hooks in the order in which they run.
//
// The package asks no coordinator by itself, and knows no callers: its caller brings the one that
// confirms a launch, and Options the one that is asked for stops. It may start an engine for any
// account: its caller says whose it may be.
//
// Any goroutine may call all of it, except functions for the measuring loop alone.
package engine
