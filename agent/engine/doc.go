// Package engine looks after the engines of a host: it launches them, watches their processes, takes
// part in each measurement, ends those that it is ordered to stop, and finds out how they ended.
//
// What the agent notes of one engine is one object (engine). The tracker has what the engine is and
// what was measured of it. One lock, that of package hoststate, guards both.
//
// Each part of an engine's life has a file of its own: launch and its keepers, watch, measure, the
// limit, over-use, the end of the main process, stop, release, the end. A part that acts at
// measurements is a hook; measure.go lists the hooks in the order in which they run.
//
// The package asks no coordinator by itself, and knows no callers: its caller brings the one that
// confirms a launch, and Options the one that is asked for stops. It may start an engine for any
// account: its caller says whose it may be.
//
// All of it may be called from any goroutine, except what is for the measuring loop alone.
package engine
