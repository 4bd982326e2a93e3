// Package credential is what the two ends of a connection show each other: certificates and bearer
// tokens from files, which are read again when they change, so that nothing is restarted for a
// renewal.
//
// A ServerTLS or ClientTLS is a part of a configuration; Open reads its files, and refuses what
// cannot work with a *FileError that says which field, which file and what would be right. From
// then on the files are looked at when somebody connects, at most once a second; new ones that
// cannot be used leave the old ones in use, and that is logged once. Describe says what to do
// about a connection that failed for lack of trust.
//
// It decides nothing about what a certificate's or a token's owner may do: that is package access.
//
// Everything may be used by many goroutines.
package credential
