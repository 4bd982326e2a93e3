// Package servers finds the coordinators and the agent that a command calls: from its flags, its
// environment and Consul. It shows them the caller's credentials, and says how long a command tries
// again. Connections belong to one invocation and one goroutine.
package servers
