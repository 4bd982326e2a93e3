//go:build linux

// Package linkis runs a real Apache Linkis next to a real Bursar: MariaDB, Eureka, a LinkisManager
// with and without the adapter, EngineConnManagers in network namespaces with an agent each, and a
// coordinator. A bean in the manager's process (driver/) does what the rest of LinkisManager does
// with its ResourceManager, so that allocation can be tested without engines. TestEngines starts
// real engines by Linkis's own API, TestLaunch has agents start them. TestCoordinators has three
// coordinators with Consul and PostgreSQL, TestManagers two LinkisManagers, TestQueues a real YARN.
//
// TestSmoke takes minutes (make test-linkis). The others (make linkis) and TestCycles (make bench
// BENCH=linkis) take longer.
//
// It needs what `make linkis-ready` provides and a built Linkis in LINKIS_HOME (default
// ../shared/linkis next to the checkout). Everything ends with the test, however the test ends. A
// folder in BURSAR_LINKIS_LOGS takes all that Linkis's services print.
package linkis
