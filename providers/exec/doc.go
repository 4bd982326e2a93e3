// Package exec reads the queues of any system from a command that prints them as JSON, so that
// licence servers, quotas of Kubernetes or partitions of Slurm become accounts.
//
// Decode reads what the command prints, strictly: what it does not know, or what makes no sense, is
// an error with its field, its value and what would be right, and nothing of it is taken.
// docs/providers.md has the fields.
//
// The command runs once for a reading, without a shell, with a timeout, as an unprivileged user.
// Before each run the program is checked: if others than root and the coordinator's user could
// replace it, it does not run. A command that comes over the API would let an admin run anything as
// the coordinator's user, so the kind is a providers.FileOnly.
// A queue may have any path, so the kind is a providers.FullPaths.
//
// # Concurrency
//
// Methods of a Provider may be called from any goroutine, and wait for one another. An Answer is
// not changed once it is returned.
package exec
