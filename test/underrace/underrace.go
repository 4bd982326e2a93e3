// Package underrace says what the race detector costs, to tests that measure memory or time: it
// keeps shadows of what is read and written, and sync.Pool forgets at random under it. It does
// nothing else.
package underrace
