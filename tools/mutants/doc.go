// Command mutants shows what the tests of a package do not notice. It makes small changes in the package's code, one at a
// time, and runs the package's tests against each: a change that no test notices has survived. Every survivor must be in
// test/mutants/survivors.txt with the reason why it is harmless, and nothing else may be there.
//
//	go run ./tools/mutants ./label ./resource coordinator/ledger/account.go
//
// Of a package whose files are named it tries the mutants of those files alone.
//
// All changes of a package are compiled at once, each behind a condition on its number (weave.go), and the tests are told
// by a variable of the environment which one is in force. So a package is built once, and a change costs no more than the
// tests that notice it. What is compiled stands in a temporary directory, laid over the tree by "go test -overlay": the
// tree is not touched.
package main
