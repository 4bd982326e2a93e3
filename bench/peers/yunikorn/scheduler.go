package main

import (
	"encoding/json"
	"fmt"
	"strconv"

	"github.com/apache/yunikorn-core/pkg/entrypoint"
	"github.com/apache/yunikorn-core/pkg/log"
	"github.com/apache/yunikorn-scheduler-interface/lib/go/si"

	"github.com/bursar/bursar/bench/peers"
)

// resourceManager is the name of this program in the core.
const resourceManager = "rm:bench"

// scheduler is YuniKorn core, and its callbacks.
type scheduler struct {
	services  *entrypoint.ServiceContext
	callbacks *callbacks
}

// Open registers the queues, then the hosts and the applications, and waits until all of them are
// accepted.
func (s *scheduler) Open(c peers.Cluster, granted func(string, int)) (string, error) {
	quiet := map[string]string{"log.level": "ERROR"}
	log.UpdateLoggingConfig(quiet)
	s.callbacks = newCallbacks(granted)
	s.services = entrypoint.StartAllServicesWithParams(false, false)
	config, err := json.Marshal(configuration(c)) // YAML reads it
	if err != nil {
		return "", fmt.Errorf("the queues: %w", err)
	}
	if _, err := s.services.RMProxy.RegisterResourceManager(&si.RegisterResourceManagerRequest{
		RmID: resourceManager, PolicyGroup: "queues", Version: "1", BuildInfo: map[string]string{"bench": "1"},
		Config: string(config), ExtraConfig: quiet,
	}, s.callbacks); err != nil {
		return "", fmt.Errorf("register: %w", err)
	}
	if err := s.addHosts(c); err != nil {
		return "", err
	}
	if err := s.addApplications(c); err != nil {
		return "", err
	}
	return peers.VersionOf("github.com/apache/yunikorn-core"), nil
}

func (s *scheduler) addHosts(c peers.Cluster) error {
	request := &si.NodeRequest{RmID: resourceManager}
	for i := range c.Hosts {
		request.Nodes = append(request.Nodes, &si.NodeInfo{
			NodeID: fmt.Sprintf("host-%06d:1", i), Action: si.NodeInfo_CREATE, Attributes: map[string]string{},
			SchedulableResource: resource(c.Host),
		})
	}
	if err := s.services.RMProxy.UpdateNode(request); err != nil {
		return fmt.Errorf("hosts: %w", err)
	}
	return s.callbacks.accepted(c.Hosts, "hosts")
}

func (s *scheduler) addApplications(c peers.Cluster) error {
	request := &si.ApplicationRequest{RmID: resourceManager}
	for i, app := range c.Apps {
		request.New = append(request.New, &si.AddApplicationRequest{
			ApplicationID: application(i), QueueName: "root." + app.Queue,
			Ugi: &si.UserGroupInformation{User: app.User, Groups: []string{app.User}},
		})
	}
	if err := s.services.RMProxy.UpdateApplication(request); err != nil {
		return fmt.Errorf("applications: %w", err)
	}
	return s.callbacks.accepted(len(c.Apps), "applications")
}

// Submit sends all requests in one message.
func (s *scheduler) Submit(requests []peers.Request) error {
	message := &si.AllocationRequest{RmID: resourceManager}
	for i := range requests {
		r := &requests[i]
		for n := range r.Count {
			message.Allocations = append(message.Allocations, &si.Allocation{
				AllocationKey: key(r.Name, n), ApplicationID: application(r.App), ResourcePerAlloc: resource(r.Quantity),
			})
		}
	}
	if err := s.services.RMProxy.UpdateAllocation(message); err != nil {
		return fmt.Errorf("submit: %w", err)
	}
	return nil
}

func (s *scheduler) Release(r peers.Request) error {
	releases := &si.AllocationReleasesRequest{}
	for n := range r.Count {
		releases.AllocationsToRelease = append(releases.AllocationsToRelease, &si.AllocationRelease{
			AllocationKey: key(r.Name, n), ApplicationID: application(r.App), TerminationType: si.TerminationType_STOPPED_BY_RM,
		})
	}
	if err := s.services.RMProxy.UpdateAllocation(&si.AllocationRequest{RmID: resourceManager, Releases: releases}); err != nil {
		return fmt.Errorf("release: %w", err)
	}
	return nil
}

func (s *scheduler) Close() error {
	if s.services != nil {
		s.services.StopAll()
	}
	return nil
}

func application(number int) string { return "app-" + strconv.Itoa(number) }

// key returns the name of an allocation; callbacks find the request by it.
func key(request string, number int) string { return request + "/" + strconv.Itoa(number) }

// resource converts to the core's names and units: bytes, and thousandths of a core.
func resource(q peers.Quantities) *si.Resource {
	return &si.Resource{Resources: map[string]*si.Quantity{"memory": {Value: q.Memory}, "vcore": {Value: q.CPU}}}
}
