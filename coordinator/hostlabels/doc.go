// Package hostlabels says what the hosts of a fleet have as labels, and which conditions on labels
// they do not meet.
//
// A Census counts hosts by label. Its costs grow with the different values of a label, never with
// the hosts. Texts that are made here are for people: they are bounded, stand on one line, and have
// one order. Nothing here is safe for concurrent use.
package hostlabels
