// Package machine has what a host has for engines, and what keeps engines off it, next to its memory
// and cpu: work directories and their space, custom countables that commands count, a health
// command, file descriptors.
//
// It measures when it is asked, or runs a command when that is due. It decides nothing about
// engines: a problem that it finds goes into the host's sample, and the coordinator grants nothing
// there.
//
// Countables and HealthLoop have a loop each, for one goroutine; what they know may be asked from
// any. WorkDirs are for one goroutine.
package machine
