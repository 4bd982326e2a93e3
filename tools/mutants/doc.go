// Command mutants shows what the tests of a package do not notice. It makes small changes in the
// package's code, one at a time, and runs the package's tests against each. A change that no test
// notices has survived. Every survivor must be in test/mutants/survivors.txt with the reason why
// it is harmless, and nothing else may be there.
//
//	go run ./tools/mutants ./label ./resource coordinator/ledger/account.go
//
// If files of a package are named, it tries only the mutants of those files.
//
// All changes of a package are compiled at once, each behind a condition on its number (weave.go),
// and a variable of the environment says which one is in force. So a package is built once, and a
// change costs only the tests that notice it. The compiled code is in a temporary directory, which
// "go test -overlay" lays over the tree: the tree is not touched.
package main
