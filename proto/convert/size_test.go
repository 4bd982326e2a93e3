package convert_test

import (
	"errors"
	"fmt"
	"strings"
	"testing"

	"google.golang.org/protobuf/proto"

	bursarv1 "github.com/bursar/bursar/proto/bursar/v1"
	"github.com/bursar/bursar/proto/convert"
	"github.com/bursar/bursar/resource"
)

// labels returns n labels of a size in bytes, including their keys.
func labels(n, bytes int) map[string]string {
	m := make(map[string]string, n)
	for i := range n {
		key := fmt.Sprintf("label%02d", i)
		m[key] = strings.Repeat("v", bytes-len(key))
	}
	return m
}

// parts returns n queues with a path of four long levels, and every quantity.
func parts(n int) []*bursarv1.ExternalResource {
	list := make([]*bursarv1.ExternalResource, 0, n)
	for i := range n {
		list = append(list, &bursarv1.ExternalResource{
			Kind: "yarn", Cluster: fmt.Sprintf("production-%d", i), Partition: "high-memory",
			Path:        "root." + strings.Repeat("a-department-with-a-long-name.", 3) + "interactive",
			MemoryBytes: new(int64(1 << 40)), CpuMillis: new(int64(1e6)), Instances: new(int64(200)), Custom: map[string]int64{"yarn.io/gpu": 8},
		})
	}
	return list
}

func hosts(n int) (list []string) {
	for i := range n {
		list = append(list, fmt.Sprintf("engine-host-%04d.rack-12.example.org", i))
	}
	return list
}

// The largest known real requests: the labels of a Linkis request with all its optional ones, eight
// queues of clusters side by side, every host of a rack avoided, 64 applications.
func TestTheLargestRealRequestsPass(t *testing.T) {
	linkis := map[string]string{
		"user": "hduser05", "creator": "data-quality-platform", "engineType": "spark-3.3.1", "userCreator": "hduser05-data-quality-platform",
		"codeType": "pyspark", "executeOnce": "true", "tenant": "department-of-risk-control", "engineConnMode": "cluster",
		"bindEngine": "6f1e1d2c-2f7a-4b6e-9a53-2f3f1f6cb0aa", "yarnCluster": "production-1", "emInstance": "engine-host-0012.example.org:9102",
		"driverTask": strings.Repeat("t", 64), "concurrentEngineConn": "20", "loadBalance": "10", "route": "route-blue", "reuseExclusion": strings.Repeat("e", 128),
	}
	resources := &bursarv1.Resource{
		MemoryBytes: new(int64(64 << 30)), CpuMillis: new(int64(16000)), Instances: new(int64(1)), Custom: map[string]int64{"nvidia.com/gpu": 4},
		External: parts(8),
	}
	var applications []string
	for i := range 64 {
		applications = append(applications, fmt.Sprintf("application_1763800000000_%06d", i))
	}
	for name, m := range map[string]proto.Message{
		"allocate": &bursarv1.AllocateRequest{
			RequestId: strings.Repeat("r", 64), Labels: linkis, Resource: resources,
			Host: &bursarv1.HostWishes{RequiredLabels: labels(8, 60), PreferredLabels: labels(8, 60), Avoid: hosts(48)},
		},
		"confirm": &bursarv1.ConfirmRequest{
			Id: "0123456789abc", Entitled: resources, ApplicationIds: applications, Address: "engine-host-0012.rack-12.example.org:41234",
			Process: &bursarv1.Process{Pid: 1, Cgroup: "/system.slice/" + strings.Repeat("bursar-engine.slice/", 10)},
		},
		"resize":   &bursarv1.ResizeRequest{Id: "0123456789abc", Entitled: resources},
		"register": &bursarv1.RegisterRequest{HostId: "h1", Labels: labels(64, 100), Capacity: resources},
		"quota":    &bursarv1.PutRequest{Quota: &bursarv1.Quota{Selector: linkis, Limit: resources, Guaranteed: resources}},
		"provider": &bursarv1.PutProviderRequest{Provider: &bursarv1.Provider{Kind: "yarn", Cluster: "production-1", Settings: labels(30, 200)}},
	} {
		if err := convert.CheckSize(m); err != nil {
			t.Errorf("%s of %d bytes: %v", name, proto.Size(m), err)
		}
	}
}

func TestARequestThatWouldLeaveTooMuchIsRefused(t *testing.T) {
	wishes := &bursarv1.HostWishes{RequiredLabels: labels(16, 300), PreferredLabels: labels(16, 300), Avoid: hosts(256)}
	allocate := &bursarv1.AllocateRequest{Labels: labels(32, 300), Resource: &bursarv1.Resource{}, Host: wishes}
	applications := make([]string, 64)
	for i := range applications {
		applications[i] = strings.Repeat("a", 128)
	}
	quota := &bursarv1.Quota{Selector: labels(16, 300), Limit: &bursarv1.Resource{External: parts(50)}}
	provider := &bursarv1.Provider{Settings: labels(64, 4096)}
	for want, m := range map[string]proto.Message{
		"host.avoid":                   allocate,
		"labels":                       &bursarv1.AllocateRequest{Labels: labels(32, 300)},
		"resource.external":            &bursarv1.AllocateRequest{Resource: &bursarv1.Resource{External: parts(60)}},
		"request.host.avoid":           &bursarv1.ExplainRequest{Request: allocate},
		"application_ids":              &bursarv1.ConfirmRequest{Id: "0123456789abc", ApplicationIds: applications, Address: strings.Repeat("a", 512)},
		"entitled.external":            &bursarv1.ResizeRequest{Entitled: &bursarv1.Resource{External: parts(60)}},
		"quota.limit.external":         &bursarv1.PutRequest{Quota: quota},
		"quotas[1].limit.external":     &bursarv1.ApplyRequest{Quotas: []*bursarv1.Quota{{}, quota}},
		"provider.settings":            &bursarv1.PutProviderRequest{Provider: provider},
		"labels ":                      &bursarv1.RegisterRequest{Labels: labels(64, 300)},
		"provider.settings of a check": &bursarv1.CheckProviderRequest{Provider: provider},
	} {
		err := convert.CheckSize(m)
		wrong, ok := errors.AsType[*resource.FieldError](err)
		field, _, _ := strings.Cut(want, " ")
		if !ok || wrong.Field != field {
			t.Errorf("%s: got %v", want, err)
			continue
		}
		if !strings.HasSuffix(wrong.Value, " bytes") || !strings.HasPrefix(wrong.Want, "at most ") {
			t.Errorf("%s: %v does not tell the size and the bound", want, err)
		}
	}
}

// The limit covers all fields together and is exact.
func TestTheBoundOnSizeIsExact(t *testing.T) {
	m := &bursarv1.AllocateRequest{Host: &bursarv1.HostWishes{Avoid: hosts(200)}}
	m.RequestId = strings.Repeat("r", 1000) // two bytes of length and one of tag before it
	m.RequestId = m.GetRequestId()[:1000+convert.MaxAllocationSize-proto.Size(m)]
	if n := proto.Size(m); n != convert.MaxAllocationSize {
		t.Fatalf("the test is wrong: %d bytes", n)
	}
	if err := convert.CheckSize(m); err != nil {
		t.Error(err)
	}
	m.Async = true
	if err := convert.CheckSize(m); err == nil {
		t.Error("a byte beyond the bound passes")
	}
}
