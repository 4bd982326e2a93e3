// Package label defines the key=value labels of requests, hosts and accounts; the selectors and
// scopes of quotas; and the rules that change a request's labels before decisions use them.
//
// It decides nothing about resources and knows no wire format. Sets, selectors, scopes and
// preprocessors are immutable and may be shared between goroutines.
package label
