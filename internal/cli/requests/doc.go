// Package requests has the parts that the commands that ask for resources share: run, allocate and
// explain read the same flags, and a user who waits for a grant sees the reason.
package requests
