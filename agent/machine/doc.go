// Package machine measures the resources of a host besides memory and cpu, and finds problems that
// keep engines off it: work directories and their space, custom countables that commands count, a
// health command, file descriptors.
//
// It measures when it is asked, or runs a command when that is due. It decides nothing about
// engines: a problem that it finds goes into the host's sample, and the coordinator grants nothing
// there.
//
// Countables and HealthLoop have a loop each, for one goroutine; any goroutine may ask them.
// WorkDirs are for one goroutine.
package machine
