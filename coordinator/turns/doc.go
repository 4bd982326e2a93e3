// Package turns decides whose command the commit loop takes next, so that nobody who sends many
// commands, large ones or slow ones keeps others waiting.
//
// A Queue holds the commands that wait: first in, first out for each caller. Callers take turns by
// deficit round robin (Shreedhar and Varghese, 1995) in three classes, which take turns in the
// same way. What a command costs is not known before it ran, so it is charged afterwards: who has
// taken more than its turn waits until others have had as much. A Queue also counts what the
// commands since NextBatch have cost, and says when a batch has enough.
//
// A Queue has no goroutine, no lock and no clock.
package turns
