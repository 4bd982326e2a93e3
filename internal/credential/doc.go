// Package credential loads the credentials of the two ends of a connection, certificates and bearer
// tokens, from files. It reads the files again when they change, so a renewal needs no restart.
//
// A ServerTLS or ClientTLS is a part of a configuration. Open reads its files, and refuses an
// unusable one with a *FileError that names the field, the file and a correct value. From then on a
// new connection checks the files, at most once a second. If the new files cannot be used, the old
// ones stay in use, and the fault is logged once. Describe adds advice to the error of a connection
// that failed for lack of trust.
//
// The package does not decide what the owner of a certificate or a token may do. Package access
// does.
//
// All types may be used by many goroutines.
package credential
