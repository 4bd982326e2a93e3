package main

import (
	"strings"
	"testing"

	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"

	"github.com/bursar/bursar/internal/cli/cmdline"
	bursarv1 "github.com/bursar/bursar/proto/bursar/v1"
)

// Who types flags is told flags.
func TestFieldsAreNamedAsTheyAreTyped(t *testing.T) {
	for command, fields := range map[string]map[string]string{
		"allocate": {
			"resource.memory_bytes": "--memory", "request.resource.cpu_millis": "--cpu", "resource.custom[gpu]": "--custom gpu", "entitled.gpu": "--custom gpu",
			"labels[user]": "--label user", "host.id": "--host", "host.required_labels[zone]": "--require zone", "host.avoid[0]": "--avoid", "host.required_rules[0]": "--require", "name": "--name",
			"reservation_ttl": "--ttl", "request_id": "--request-id", "priority": "--priority", "wait": "--wait",
			"resource.external[yarn:prod:a]": "--external yarn:prod:a", "resource.external[0]": "--external",
			"resource.external[0].kind": "--external kind", "resource.external[yarn:prod:a].memory": "--external yarn:prod:a memory",
			"weight": "weight", "something.else": "something.else", "": "",
		},
		"quota set": {
			"quota.limit.memory_bytes": "--memory", "user=alice: guaranteed.memory": "--guaranteed memory", "user=alice: weight": "--weight",
			"quota.guaranteed.external[yarn:*:*].memory": "--guaranteed-external yarn:*:* memory", "quota.limit.external[yarn:*:*]": "--external yarn:*:*",
			"user=*: limit.custom[gpu]": "--custom gpu", "selector": "selector",
		},
		"run":    {"working_directory": "--workdir", "environment[A]": "--env A", "command[0]": "command[0]"},
		"submit": {"launch.working_directory": "--dir", "launch.environment[A]": "--env A", "launch.account": "--account", "launch.script": "--script", "request.host.id": "--host", "launch.ready.port": "--ready-port"},
		"stop":   {"grace": "--grace", "reason": "--reason"},
		"status": {"labels[user]": "labels[user]"},
	} {
		c := cmdline.New(cmdline.Streams{}, version)
		found, _, err := newRoot(c).Find(strings.Fields(command))
		if err != nil {
			t.Fatal(err)
		}
		c.Flags = found.Flags()
		for field, want := range fields {
			if got := c.TypedAs(field); got != want {
				t.Errorf("%s: %q is named %q, want %q", command, field, got, want)
			}
		}
	}
	if got := cmdline.New(cmdline.Streams{}, version).TypedAs("labels[user]"); got != "labels[user]" {
		t.Errorf("without a command: %q", got)
	}
}

// Every field of the requests that a command makes is named by its flag, if there is one.
func TestEveryFieldThatHasAFlagIsNamedByIt(t *testing.T) {
	for command, c := range map[string]struct {
		requests []proto.Message
		without  string // the beginnings of the fields that have no flag
	}{
		"allocate": {[]proto.Message{&bursarv1.AllocateRequest{}}, "confirms_process streamed. limit"},
		"explain":  {[]proto.Message{&bursarv1.ExplainRequest{}}, "id request.async request.confirms_process request.streamed. request.limit request.name"},
		"run": {
			[]proto.Message{&bursarv1.AllocateRequest{}, &bursarv1.LaunchRequest{}, &bursarv1.StartRequest{}},
			"async confirms_process streamed. id command[ request.async request.confirms_process request.streamed. launch.command[ launch.logs.max_bytes launch.logs.keep launch.ready.line.stream logs.max_bytes logs.keep phase address application_ids[",
		},
		"confirm":       {[]proto.Message{&bursarv1.ConfirmRequest{}}, "id process.start_time process.boot_id process.uid process.verified process.launched process.reaper_pid process.reaper_start_time process.limit reaps leader_end. phase phase_reason"},
		"release":       {[]proto.Message{&bursarv1.ReleaseRequest{}}, "id exit_status. error_output process_ended incidents[ measured_peak. measured_peak_source cpu_time"},
		"cancel":        {[]proto.Message{&bursarv1.CancelRequest{}}, "id request_id"},
		"renew":         {[]proto.Message{&bursarv1.RenewRequest{}}, "id"},
		"resize":        {[]proto.Message{&bursarv1.ResizeRequest{}}, "id"},
		"stop":          {[]proto.Message{&bursarv1.StopRequest{}}, "id release"},
		"allocations":   {[]proto.Message{&bursarv1.AllocationServiceListRequest{}}, "page_size page_token id_prefix allow_stale"},
		"submit":        {[]proto.Message{&bursarv1.StartRequest{}}, "request.async request.confirms_process request.streamed. launch.command[ launch.logs.max_bytes launch.logs.keep launch.ready.line.stream"},
		"wait":          {[]proto.Message{&bursarv1.WaitRequest{}}, "id ready leader_end"},
		"logs":          {[]proto.Message{&bursarv1.LogsRequest{}}, "id stream tail_bytes"},
		"signal":        {[]proto.Message{&bursarv1.SignalRequest{}}, "id"},
		"hosts":         {[]proto.Message{&bursarv1.HostServiceListRequest{}}, "page_size page_token id_prefix allow_stale"},
		"watch":         {[]proto.Message{&bursarv1.AllocationServiceWatchRequest{}, &bursarv1.ClusterServiceWatchRequest{}}, "id"},
		"quotas":        {[]proto.Message{&bursarv1.QuotaServiceListRequest{}}, "page_size page_token allow_stale"},
		"quota set":     {[]proto.Message{&bursarv1.PutRequest{}}, "quota.selector[ quota.normalization. quota.source quota.hidden quota.etag quota.undeclared_dimensions[ if_etag"},
		"quota apply":   {[]proto.Message{&bursarv1.ApplyRequest{}}, "quotas["},
		"quota delete":  {[]proto.Message{&bursarv1.DeleteRequest{}}, "selector["},
		"queues":        {[]proto.Message{&bursarv1.QueueServiceListRequest{}}, "page_size page_token kind cluster allow_stale max_unreported"},
		"provider set":  {[]proto.Message{&bursarv1.PutProviderRequest{}}, "provider.kind provider.cluster provider.settings[ provider.source provider.health."},
		"host cordon":   {[]proto.Message{&bursarv1.CordonRequest{}}, "host_id"},
		"host uncordon": {[]proto.Message{&bursarv1.UncordonRequest{}}, "host_id"},
		"host drain":    {[]proto.Message{&bursarv1.DrainRequest{}}, "host_id"},
		"host accept":   {[]proto.Message{&bursarv1.AcceptRequest{}}, "host_id ids["},
		"host remove":   {[]proto.Message{&bursarv1.DeregisterRequest{}}, "host_id"},
	} {
		cli := cmdline.New(cmdline.Streams{}, version)
		found, _, err := newRoot(cli).Find(strings.Fields(command))
		if err != nil {
			t.Fatal(err)
		}
		cli.Flags = found.Flags()
		without := make(map[string]bool)
		for begin := range strings.FieldsSeq(c.without) {
			without[begin] = false
		}
		for _, request := range c.requests {
			for _, field := range fieldsOf(request.ProtoReflect().Descriptor(), "") {
				name := cli.TypedAs(field)
				if name == field {
					if !isWithout(without, field) {
						t.Errorf("%s: %s has no flag", command, field)
					}
					continue
				}
				flag, _, _ := strings.Cut(strings.TrimPrefix(name, "--"), " ")
				if cli.Flags.Lookup(flag) == nil {
					t.Errorf("%s: %s is named %s, and there is no such flag", command, field, name)
				}
			}
		}
		for begin, found := range without {
			if !found {
				t.Errorf("%s: no field begins with %s, or it has a flag now", command, begin)
			}
		}
	}
}

// isWithout reports whether a field begins as one of those without a flag, and notes which.
func isWithout(without map[string]bool, field string) bool {
	for begin := range without {
		if field == begin || strings.HasPrefix(field, begin) && strings.ContainsAny(begin[len(begin)-1:], ".[") {
			without[begin] = true
			return true
		}
	}
	return false
}

// fieldsOf are the paths of all fields of a message that a person may set, as errors name them.
func fieldsOf(of protoreflect.MessageDescriptor, prefix string) (paths []string) {
	for i := range of.Fields().Len() {
		field := of.Fields().Get(i)
		path := prefix + string(field.Name())
		switch {
		case field.IsMap():
			paths = append(paths, path+"[x]")
			continue
		case field.IsList():
			path += "[0]"
		}
		if m := field.Message(); m != nil && m.ParentFile().Package() == of.ParentFile().Package() {
			paths = append(paths, fieldsOf(m, path+".")...)
		} else {
			paths = append(paths, path)
		}
	}
	return paths
}
