// Package label holds the key=value labels of requests, hosts and accounts; the selectors and
// scopes of quotas; and the rules that a request's labels go through before anything is decided by
// them.
//
// It decides nothing about resources and knows no wire format. Sets, selectors, scopes and
// preprocessors are immutable and may be shared between goroutines.
package label
