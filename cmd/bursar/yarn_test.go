package main

import (
	"encoding/json"
	"fmt"
	"maps"
	"net"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/rogpeppe/go-internal/testscript"

	"github.com/bursar/bursar/resource"
)

// yarnCluster is what the ResourceManagers of a script show: one cluster, with a CapacityScheduler
// as in Hadoop 3.3.
type yarnCluster struct {
	mu      sync.Mutex
	queues  map[string]*yarnQueue // by path
	apps    map[string]*yarnApp
	started int64 // when the active one began, in ms: its incarnation
	servers map[string]*yarnServer
}

type yarnQueue struct {
	limit, used resource.Vector // used: by nobody's application in particular
	state       string
}

type yarnApp struct {
	queue, state, diagnostics string
	used                      resource.Vector
}

// yarnServer is one ResourceManager.
type yarnServer struct {
	cluster *yarnCluster
	address string
	role    string // active, standby, none, broken
	http    *http.Server
}

type yarnKey struct{}

func newYARN() *yarnCluster {
	return &yarnCluster{
		queues: map[string]*yarnQueue{}, apps: map[string]*yarnApp{}, servers: map[string]*yarnServer{}, started: 1700000000000,
	}
}

// changeYARN is the command yarn of the scripts.
func changeYARN(ts *testscript.TestScript, neg bool, args []string) {
	cluster, _ := ts.Value(yarnKey{}).(*yarnCluster)
	if neg || len(args) < 2 {
		ts.Fatalf("usage: yarn queue PATH NAME=VALUE… | yarn app ID NAME=VALUE… | yarn many PATH N | yarn server NAME active|standby|none|broken|down")
	}
	cluster.mu.Lock()
	defer cluster.mu.Unlock()
	switch args[0] {
	case "queue":
		q := cluster.queues[args[1]]
		if q == nil {
			q = &yarnQueue{state: "RUNNING"}
			cluster.queues[args[1]] = q
		}
		eachPair(ts, args[2:], map[string]func(string){
			"limit": func(v string) { q.limit = yarnVector(ts, v) },
			"used":  func(v string) { q.used = yarnVector(ts, v) },
			"state": func(v string) { q.state = v },
		})
		if q.state == "GONE" {
			delete(cluster.queues, args[1])
		}
	case "app":
		app := cluster.apps[args[1]]
		if app == nil {
			app = &yarnApp{state: "RUNNING"}
			cluster.apps[args[1]] = app
		}
		eachPair(ts, args[2:], map[string]func(string){
			"queue":       func(v string) { app.queue = v },
			"used":        func(v string) { app.used = yarnVector(ts, v) },
			"state":       func(v string) { app.state = v },
			"diagnostics": func(v string) { app.diagnostics = v },
		})
	case "many":
		n, err := strconv.Atoi(args[2])
		ts.Check(err)
		for i := range n {
			cluster.queues[fmt.Sprintf("%s.q%04d", args[1], i)] = &yarnQueue{state: "RUNNING", limit: resource.Vector{}.WithMemory(1 << 30).WithCPU(1000)}
		}
	case "server":
		cluster.serve(ts, args[1], args[2])
	default:
		ts.Fatalf("yarn: unknown %q", args[0])
	}
}

func eachPair(ts *testscript.TestScript, pairs []string, known map[string]func(string)) {
	for _, pair := range pairs {
		name, value, _ := strings.Cut(pair, "=")
		set := known[name]
		if set == nil {
			ts.Fatalf("yarn: unknown %q", pair)
		}
		set(value)
	}
}

// yarnVector reads "8GiB/8".
func yarnVector(ts *testscript.TestScript, text string) resource.Vector {
	memory, cpu, _ := strings.Cut(text, "/")
	v, err := resource.ParseVector(map[string]string{resource.Memory: memory, resource.CPU: cpu})
	ts.Check(err)
	return v
}

// serve makes a server behave as the script says, on the same port as before.
func (c *yarnCluster) serve(ts *testscript.TestScript, name, role string) {
	s := c.servers[name]
	if s == nil {
		s = &yarnServer{cluster: c, address: "127.0.0.1:0"}
		c.servers[name] = s
		ts.Defer(s.stop)
	}
	if role == "active" && s.role != "active" {
		c.started++
	}
	s.role = role
	if role == "down" {
		s.stop()
		return
	}
	if s.http != nil {
		return
	}
	listener, err := net.Listen("tcp", s.address)
	ts.Check(err)
	s.address = listener.Addr().String()
	ts.Setenv(name, "http://"+s.address)
	s.http = &http.Server{Handler: s, ReadHeaderTimeout: 10 * time.Second}
	go func(server *http.Server) { _ = server.Serve(listener) }(s.http)
}

func (s *yarnServer) stop() {
	if s.http != nil {
		_ = s.http.Close()
		s.http = nil
	}
}

func (s *yarnServer) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	s.cluster.mu.Lock()
	defer s.cluster.mu.Unlock()
	path, found := strings.CutPrefix(r.URL.Path, "/ws/v1/cluster")
	switch {
	case !found:
		http.NotFound(w, r)
	case path == "/info" && s.role != "broken":
		state := map[string]string{"active": "ACTIVE"}[s.role]
		if state == "" {
			state = "STANDBY"
		}
		writeJSON(w, object{"clusterInfo": object{
			"id": s.cluster.started, "startedOn": s.cluster.started, "state": "STARTED", "haState": state,
			"resourceManagerVersion": "3.3.6", "hadoopVersion": "3.3.6",
		}})
	case s.role == "standby":
		w.Header().Set("Location", "http://127.0.0.1:1"+r.URL.Path)
		w.WriteHeader(http.StatusTemporaryRedirect)
		fmt.Fprintf(w, "This is standby RM. The redirect url is: http://127.0.0.1:1%s\n", r.URL.Path)
	case s.role == "none":
		w.Header().Set("Refresh", "5; url=x")
		w.WriteHeader(http.StatusTemporaryRedirect)
		fmt.Fprintf(w, "Can not find any active RM. Will retry in next 5 seconds.\n")
	case s.role == "broken":
		w.WriteHeader(http.StatusServiceUnavailable)
	case path == "/scheduler":
		writeJSON(w, object{"scheduler": object{"schedulerInfo": s.cluster.scheduler()}})
	case path == "/metrics":
		writeJSON(w, object{"clusterMetrics": s.cluster.metrics()})
	case path == "/nodes":
		writeJSON(w, object{"nodes": object{"node": []object{s.cluster.node()}}})
	case path == "/apps" && r.FormValue("states") == "ACCEPTED":
		writeJSON(w, object{"apps": object{"app": s.cluster.waiting()}})
	case strings.HasPrefix(path, "/apps/"):
		s.application(w, strings.TrimPrefix(path, "/apps/"))
	default:
		http.NotFound(w, r)
	}
}

type object = map[string]any

func writeJSON(w http.ResponseWriter, v any) {
	w.Header().Set("Content-Type", "application/json;charset=utf-8")
	_ = json.NewEncoder(w).Encode(v)
}

func yarnResource(v resource.Vector) object {
	memory, _ := v.Get(resource.Memory)
	cpu, _ := v.Get(resource.CPU)
	return object{"memory": memory >> 20, "vCores": cpu / 1000}
}

// usedBy is what is used in a queue: by nobody's applications, by its applications, and in the
// queues below it.
func (c *yarnCluster) usedBy(path string) resource.Vector {
	var sum resource.Sum
	for p, q := range c.queues {
		if inQueue(p, path) {
			_ = sum.Add(q.used)
		}
	}
	for _, app := range c.apps {
		if inQueue(app.queue, path) && app.state == "RUNNING" {
			_ = sum.Add(app.used)
		}
	}
	return sum.Vector()
}

func (c *yarnCluster) scheduler() object {
	root := c.queues["root"]
	if root == nil {
		root = &yarnQueue{}
	}
	return object{
		"type": "capacityScheduler", "capacity": 100.0, "maxCapacity": 100.0, "usedCapacity": 0.0, "queueName": "root", "queues": c.below("root"),
		"capacities": object{"queueCapacitiesByPartition": []object{{
			"partitionName": "", "absoluteCapacity": 100.0, "absoluteMaxCapacity": 100.0,
			"effectiveMinResource": yarnResource(root.limit), "effectiveMaxResource": yarnResource(root.limit),
		}}},
	}
}

// below is the part of the answer with the queues right below one.
func (c *yarnCluster) below(parent string) object {
	list := []object{}
	for _, path := range slices.Sorted(maps.Keys(c.queues)) {
		name, found := strings.CutPrefix(path, parent+".")
		if !found || strings.Contains(name, ".") {
			continue
		}
		q, used, apps := c.queues[path], c.usedBy(path), 0
		pending := 0
		for _, app := range c.apps {
			switch {
			case !inQueue(app.queue, path):
			case app.state == "RUNNING":
				apps++
			case app.state == "ACCEPTED":
				pending++
			}
		}
		said := object{
			"queueName": name, "state": q.state, "numApplications": apps + pending, "absoluteCapacity": 10.0, "absoluteMaxCapacity": 50.0,
			"resourcesUsed": yarnResource(used), "minEffectiveCapacity": yarnResource(q.limit), "maxEffectiveCapacity": yarnResource(q.limit),
			"capacities": object{"queueCapacitiesByPartition": []object{{
				"partitionName": "", "absoluteCapacity": 10.0, "absoluteMaxCapacity": 50.0,
				"effectiveMinResource": yarnResource(q.limit), "effectiveMaxResource": yarnResource(q.limit),
			}}},
			"resources": object{"resourceUsagesByPartition": []object{{
				"partitionName": "", "used": yarnResource(used), "reserved": yarnResource(resource.Vector{}),
			}}},
		}
		if inner := c.below(path); len(inner["queue"].([]object)) > 0 { //nolint:errcheck,forcetypeassert // made here
			said["queues"] = inner
		} else {
			said["type"], said["numActiveApplications"], said["numPendingApplications"] = "capacitySchedulerLeafQueueInfo", apps, pending
			said["maxApplications"] = 100
		}
		list = append(list, said)
	}
	return object{"queue": list}
}

func (c *yarnCluster) size() (total, used resource.Vector) {
	if root := c.queues["root"]; root != nil {
		total = root.limit
	}
	return total, c.usedBy("root")
}

func (c *yarnCluster) metrics() object {
	total, used := c.size()
	t, u := yarnResource(total), yarnResource(used)
	return object{
		"totalMB": t["memory"], "totalVirtualCores": t["vCores"], "allocatedMB": u["memory"], "allocatedVirtualCores": u["vCores"],
		"totalNodes": 1, "activeNodes": 1,
	}
}

func (c *yarnCluster) node() object {
	total, used := c.size()
	t, u := yarnResource(total), yarnResource(used)
	return object{
		"id": "node:1", "state": "RUNNING", "usedMemoryMB": u["memory"], "usedVirtualCores": u["vCores"],
		"availMemoryMB": t["memory"].(int64) - u["memory"].(int64), "availableVirtualCores": t["vCores"].(int64) - u["vCores"].(int64), //nolint:errcheck,forcetypeassert // made here
	}
}

// waiting are the applications that have no container yet.
func (c *yarnCluster) waiting() []object {
	list := []object{}
	for id, app := range c.apps {
		if app.state == "ACCEPTED" {
			list = append(list, object{"id": id, "queue": app.queue, "state": app.state, "elapsedTime": 60_000, "diagnostics": app.diagnostics})
		}
	}
	return list
}

func (s *yarnServer) application(w http.ResponseWriter, id string) {
	app := s.cluster.apps[id]
	if app == nil {
		w.Header().Set("Content-Type", "application/json")
		w.WriteHeader(http.StatusNotFound)
		_ = json.NewEncoder(w).Encode(object{"RemoteException": object{
			"exception": "NotFoundException", "message": "java.lang.Exception: app with id: " + id + " not found",
			"javaClassName": "org.apache.hadoop.yarn.webapp.NotFoundException",
		}})
		return
	}
	said := object{
		"id": id, "queue": app.queue, "state": app.state, "finalStatus": "UNDEFINED", "allocatedMB": -1, "allocatedVCores": -1, "runningContainers": -1,
	}
	if app.state == "RUNNING" {
		used := yarnResource(app.used)
		said["allocatedMB"], said["allocatedVCores"], said["runningContainers"] = used["memory"], used["vCores"], 1
	}
	writeJSON(w, object{"app": said})
}

// inQueue reports whether a queue is top, or below it.
func inQueue(path, top string) bool { return path == top || strings.HasPrefix(path, top+".") }
