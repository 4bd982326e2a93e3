package main

import (
	"fmt"
	"net"
	"os"

	"github.com/hashicorp/go-hclog"
	"github.com/hashicorp/nomad/client/lib/numalib/hw"
	"github.com/hashicorp/nomad/command/agent/consul"
	"github.com/hashicorp/nomad/nomad"
	"github.com/hashicorp/nomad/nomad/mock"
	"github.com/hashicorp/nomad/nomad/structs"
	"github.com/hashicorp/nomad/nomad/structs/config"
	nomadversion "github.com/hashicorp/nomad/version"

	"github.com/bursar/bursar/bench/peers"
)

const (
	region = "global"
	// coreMHz represents one core: Nomad counts MHz.
	coreMHz = 1000
)

// startServer starts a single server, without Consul and Vault.
func startServer(dir string) (*nomad.Server, error) {
	c := nomad.DefaultConfig()
	c.Build = nomadversion.Version
	c.DevMode, c.BootstrapExpect, c.DataDir = true, 1, dir
	c.NodeName = "bench"
	c.RPCAddr = &net.TCPAddr{IP: net.IPv4(127, 0, 0, 1)}
	c.SerfConfig.MemberlistConfig.BindAddr = "127.0.0.1"
	c.SerfConfig.MemberlistConfig.BindPort = 0
	c.Logger = hclog.NewInterceptLogger(&hclog.LoggerOptions{Level: hclog.Error, Output: os.Stderr})
	c.LogOutput = os.Stderr
	off := false
	c.GetDefaultVault().Enabled = &off
	c.GetDefaultConsul().ServerAutoJoin = &off
	c.Reporting = config.DefaultReporting()
	rules := consul.NewMockConfigsAPI(c.Logger)
	server, err := nomad.NewServer(c, consul.NewMockCatalog(c.Logger), func(string) consul.ConfigAPI { return rules })
	if err != nil {
		return nil, fmt.Errorf("start the server: %w", err)
	}
	return server, nil
}

// host returns a ready host that is empty and reserves nothing.
func host(number int, q peers.Quantities) *structs.Node {
	n := mock.Node()
	n.Name = fmt.Sprintf("host-%06d", number)
	n.NodeResources.Processors.Topology.OverrideTotalCompute = megahertz(q)
	n.NodeResources.Memory.MemoryMB = q.Memory >> 20
	n.NodeResources.Disk.DiskMB = 1 << 30
	n.ReservedResources = nil
	n.NodeResources.Compatibility()
	return n
}

// job returns the job for a request. It has no port and no volume, so that only memory and CPU
// decide.
func job(r *peers.Request) *structs.Job {
	j := mock.BatchJob()
	j.ID, j.Name = r.Name, r.Name
	group := j.TaskGroups[0]
	group.Count = r.Count
	task := group.Tasks[0]
	task.Resources = &structs.Resources{CPU: int(megahertz(r.Quantity)), MemoryMB: int(r.Quantity.Memory >> 20)}
	if r.Waits {
		j.Constraints = append(j.Constraints, &structs.Constraint{LTarget: "${meta.queue}", RTarget: "full", Operand: "="})
	}
	return j
}

func megahertz(q peers.Quantities) hw.MHz { return hw.MHz(q.CPU * coreMHz / 1000) } //nolint:gosec // not negative
