// Package once has the rules by which the engine of an order begins at most once on a host: which
// orders an agent takes, and the order of the steps between a process that waits and an engine that
// runs. It does no I/O and reads no clock: package orders and package engine carry the steps out,
// and so does the simulator. Any goroutine may use an Orders. A Steps belongs to one launch.
package once
