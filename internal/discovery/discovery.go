// Package discovery finds coordinators: Static in a list, and the sub-package consul in Consul's
// catalog. It calls no coordinator, and runs no election. Everything here is safe for concurrent
// use.
package discovery

// Coordinator is a coordinator's address. Any coordinator accepts any call; the leader answers
// without forwarding it.
type Coordinator struct {
	// URL is its base, such as https://10.0.0.1:7070, without a trailing slash.
	URL string
	// Leads says that it was the leader at the last report.
	Leads bool
}

// Finder knows the coordinators' addresses.
type Finder interface {
	// Coordinators returns the known coordinators, the leader first, without blocking and without
	// an error. If the source is unavailable, the last list stays. The list is empty only until the
	// first coordinator is found. The caller must not change it. changed is closed when the list is
	// no longer the latest one.
	Coordinators() (list []Coordinator, changed <-chan struct{})
}
