// Package exec reads the queues of any system from a command that prints them as JSON. So licence
// servers, Kubernetes quotas or Slurm partitions can become accounts.
//
// Decode is strict. For an unknown field or an invalid value it returns an error with the field,
// the value and the expected form, and no part of the answer. docs/providers.md lists the fields.
//
// The command runs once per reading, without a shell, with a timeout, as an unprivileged user.
// Before each run the package checks the program file: if anyone except root and the coordinator's
// user could replace it, the program does not run. The kind is a providers.FileOnly, because a
// command set over the API would let an admin run anything as the coordinator's user. It is a
// providers.FullPaths, because a queue may have any path.
//
// # Concurrency
//
// Methods of a Provider may be called from any goroutine; they wait for one another. An Answer does
// not change after Decode has returned it.
package exec
