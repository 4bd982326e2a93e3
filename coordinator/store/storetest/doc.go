// Package storetest is the suite of what every store must do, which each backend runs, and has two
// stores for tests: Memory, which keeps rows until the process ends, and Faulty, which makes
// another store's commits fail in all possible ways.
//
// Nothing here is for production: Memory forgets.
package storetest
