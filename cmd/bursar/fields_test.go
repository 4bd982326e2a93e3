package main

import (
	"strings"
	"testing"
)

// Who types flags is told flags.
func TestFieldsAreNamedAsTheyAreTyped(t *testing.T) {
	for command, fields := range map[string]map[string]string{
		"allocate": {
			"resource.memory_bytes": "--memory", "request.resource.cpu_millis": "--cpu", "resource.custom[gpu]": "--custom gpu", "entitled.gpu": "--custom gpu",
			"labels[user]": "--label user", "host.id": "--host", "host.required_labels[zone]": "--require zone", "host.avoid[0]": "--avoid",
			"reservation_ttl": "--ttl", "request_id": "--request-id", "priority": "--priority", "wait": "--wait",
			"resource.external[yarn:prod:a]": "--external yarn:prod:a", "resource.external[0]": "--external",
			"resource.external[0].kind": "--external kind", "resource.external[yarn:prod:a].memory": "--external yarn:prod:a memory",
			"weight": "weight", "something.else": "something.else", "": "",
		},
		"quota set": {
			"quota.limit.memory_bytes": "--memory", "user=alice: guaranteed.memory": "--guaranteed memory", "user=alice: weight": "--weight",
			"user=*: limit.custom[gpu]": "--custom gpu", "selector": "selector",
		},
		"run":    {"working_directory": "--workdir", "environment[A]": "--env A", "command[0]": "command[0]"},
		"stop":   {"grace": "--grace", "reason": "--reason"},
		"status": {"labels[user]": "labels[user]"},
	} {
		c := newCLI(streams{})
		found, _, err := c.root().Find(strings.Fields(command))
		if err != nil {
			t.Fatal(err)
		}
		c.flags = found.Flags()
		for field, want := range fields {
			if got := c.typedAs(field); got != want {
				t.Errorf("%s: %q is named %q, want %q", command, field, got, want)
			}
		}
	}
	if got := newCLI(streams{}).typedAs("labels[user]"); got != "labels[user]" {
		t.Errorf("without a command: %q", got)
	}
}
