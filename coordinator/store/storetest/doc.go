// Package storetest is the suite that every store must pass; each backend runs it. It also has two
// stores for tests: Memory, which keeps rows until the process ends, and Faulty, which makes
// another store's commits fail in all possible ways.
//
// Nothing here is for production: Memory is not durable.
package storetest
