// Package hostlabels counts the labels of a fleet's hosts, and names the conditions on labels that
// no host meets.
//
// A Census counts hosts by label. Its costs grow with the different values of a label, never with
// the hosts. Texts that are made here are for people: they are bounded, stand on one line, and have
// one order. Nothing here is safe for concurrent use.
package hostlabels
