// Package requests is what the commands that ask for resources share: run, allocate and explain
// read the same flags, and who waits for a grant sees why.
package requests
