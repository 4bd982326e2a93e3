package main

import (
	"os"
	"testing"

	"github.com/spf13/cobra"

	"github.com/bursar/bursar/agent"
	"github.com/bursar/bursar/coordinator"
	"github.com/bursar/bursar/internal/cli/cmdline"
)

func TestEveryCommandTeachesByExample(t *testing.T) {
	c := cmdline.New(cmdline.Streams{In: os.Stdin, Out: os.Stdout, Err: os.Stderr}, "test")
	var look func(cmd *cobra.Command)
	look = func(cmd *cobra.Command) {
		for _, child := range cmd.Commands() {
			look(child)
		}
		if cmd.Short == "" || cmd.Long == "" {
			t.Errorf("%s does not say what it does", cmd.CommandPath())
		}
		if cmd.Runnable() && !cmd.HasSubCommands() && cmd.Example == "" {
			t.Errorf("%s has no example", cmd.CommandPath())
		}
		if cmd.Runnable() && cmd.HasParent() && !cmd.HasSubCommands() && cmd.Args == nil && cmd.Name() != "help" {
			t.Errorf("%s does not check how many arguments it has", cmd.CommandPath())
		}
	}
	look(newRoot(c))
}

func TestExampleConfigurationsAreRight(t *testing.T) {
	t.Setenv("BURSAR_COORDINATOR_LIMITS_QUEUE", "100")
	t.Setenv("BURSAR_AGENT_COORDINATORS", "http://127.0.0.1:7070")
	var books coordinator.Config
	loaded, err := loadConfig("../../examples/coordinator.yaml", "", "BURSAR_COORDINATOR", &books)
	if err != nil {
		t.Fatal(err)
	}
	if err := books.Validate(); err != nil {
		t.Error(loaded.explain(err))
	}
	if _, err := books.Labels.Compile(); err != nil {
		t.Error(loaded.explain(err))
	}
	if books.Limits.Queue != 100 || books.Labels.Derived[0].Key != "tenant" {
		t.Errorf("read %+v", books)
	}
	var host agent.Config
	if loaded, err = loadConfig("../../examples/agent.yaml", "", "BURSAR_AGENT", &host); err != nil {
		t.Fatal(err)
	}
	if err := host.Validate(); err != nil {
		t.Error(loaded.explain(err))
	}
	if host.HostID != "vm-1" || host.Capacity["gpu"] != "2" || len(host.Coordinators) != 1 {
		t.Errorf("read %+v", host)
	}
}

func TestVariablesAreNamedAfterFields(t *testing.T) {
	for name, want := range map[string]string{
		"listen": "LISTEN", "dataDir": "DATA_DIR", "reservationTTL": "RESERVATION_TTL", "hostId": "HOST_ID", "syncBytes": "SYNC_BYTES",
	} {
		if got := capitals(name); got != want {
			t.Errorf("%s is %s, want %s", name, got, want)
		}
	}
}
