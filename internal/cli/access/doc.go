// Package access has the commands on the tokens in a file of identities. It calls no server.
package access
