// Package serve has the commands that run servers: coordinator, agent, and dev, which runs
// both. It reads their configuration, talks with their service manager, and starts them again
// after a fault that time may mend.
package serve
