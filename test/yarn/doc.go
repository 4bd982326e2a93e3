// Package yarn runs real YARN clusters for tests: one ResourceManager or a pair of them,
// NodeManagers, a KDC. They are the published ones of Hadoop, which `make yarn` fetches, on
// loopback, with ports and folders of their own. What Start starts goes with the test, and with
// the process that started it, however that ends; their logs are shown when the test has failed.
//
// A cluster is up within about four seconds, with some 450 MiB for one ResourceManager and one
// NodeManager. So start few, and let the parts of a test share one. A node has as much memory and
// as many cores as its settings say; its containers sleep.
//
//	cluster := yarn.Start(t, yarn.Options{Capacity: map[string]string{
//		"root.queues": "a,b", "root.a.capacity": "40", "root.b.capacity": "60",
//	}})
//	id := cluster.Submit(t, yarn.Application{Queue: "root.a", MemoryMiB: 4096, VCores: 2})
//	cluster.AwaitAllocated(t, id)
//	// cluster.Addresses() is the setting "addresses" of a provider.
//	cluster.Kill(t, id)
//
// A Cluster's methods are for one goroutine; those that take a testing.TB fail the test if
// something does not work.
package yarn
