// Package outputs tests that the output of engines comes to its readers: coordinators, an agent and
// keepers as they are, in one process but for the keepers and their helpers.
package outputs
