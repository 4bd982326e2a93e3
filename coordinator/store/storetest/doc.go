// Package storetest holds what every store must do, as a suite that each backend runs, and two stores for tests: Memory, which
// keeps rows until the process ends, and Faulty, which makes another store's commits fail in all the ways they can.
//
// Nothing here is for production: Memory forgets.
package storetest
