// Package discovery says how coordinators are found: Static from a list, and its sub-package
// consul from Consul's catalog. It calls no coordinator, and runs no election. Many goroutines may
// use everything here.
package discovery

// Coordinator is one that can be called. Any of them takes any call; one that leads answers
// without passing it on.
type Coordinator struct {
	// URL is its base, such as https://10.0.0.1:7070, without a slash at the end.
	URL string
	// Leads says that it was the leader when last heard of.
	Leads bool
}

// Finder knows the coordinators' addresses.
type Finder interface {
	// Coordinators returns the known coordinators, the leader first, without blocking and without
	// an error: if the source is away, what was known stays. It is empty only as long as none was
	// ever known. The caller must not change the list. changed is closed once the list is not the
	// latest any more.
	Coordinators() (list []Coordinator, changed <-chan struct{})
}
