// Package turns decides whose command the commit loop takes next. No caller that sends many, large
// or slow commands can keep the others waiting.
//
// A Queue holds the waiting commands, first in first out for each caller. Callers take turns by
// deficit round robin (Shreedhar and Varghese, 1995) in three classes, which take turns in the same
// way. The cost of a command is unknown before it runs, so it is charged afterwards: a caller that
// has taken more than its turn waits until the others have had as much. A Queue also adds up the
// costs since NextBatch, and reports when a batch is full.
//
// A Queue has no goroutine, no lock and no clock.
package turns
