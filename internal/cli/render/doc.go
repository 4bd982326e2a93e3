// Package render turns messages of the API into text for people and scripts: quantities, times,
// names, tables, the reason of a refusal, the end of an engine, JSON. It calls no server, and it
// decides nothing. Its functions have no state. A Printer writes the output of one invocation; any
// number of goroutines may use it.
package render
