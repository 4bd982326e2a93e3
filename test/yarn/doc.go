// Package yarn runs real YARN clusters for tests: one ResourceManager or a pair of them,
// NodeManagers, a KDC. They are Hadoop's published releases, which `make yarn` fetches, on
// loopback, with their own ports and folders. A cluster ends with the test, and with the process
// that started it, even if that is killed; the logs are shown if the test has failed.
//
// A cluster is up within about four seconds, and takes about 450 MiB for one ResourceManager and
// one NodeManager. So start few, and let the parts of a test share one. A node claims as much
// memory and as many cores as its settings say; its containers sleep.
//
//	cluster := yarn.Start(t, yarn.Options{Capacity: map[string]string{
//		"root.queues": "a,b", "root.a.capacity": "40", "root.b.capacity": "60",
//	}})
//	id := cluster.Submit(t, yarn.Application{Queue: "root.a", MemoryMiB: 4096, VCores: 2})
//	cluster.AwaitAllocated(t, id)
//	// cluster.Addresses() is the setting "addresses" of a provider.
//	cluster.Kill(t, id)
//
// A Cluster's methods are for one goroutine; those that take a testing.TB fail the test on an
// error.
package yarn
