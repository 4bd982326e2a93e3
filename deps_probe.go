//go:build probe

package bursar

import (
	_ "buf.build/go/protovalidate"
	_ "connectrpc.com/connect"
	_ "connectrpc.com/grpchealth"
	_ "connectrpc.com/grpcreflect"
	_ "connectrpc.com/otelconnect"
	_ "connectrpc.com/validate"
	_ "github.com/anishathalye/porcupine"
	_ "github.com/cenkalti/backoff/v4"
	_ "github.com/cockroachdb/datadriven"
	_ "github.com/goccy/go-yaml"
	_ "github.com/google/go-cmp/cmp"
	_ "github.com/jedib0t/go-pretty/v6/table"
	_ "github.com/pressly/goose/v3"
	_ "github.com/prometheus/client_golang/prometheus"
	_ "github.com/prometheus/procfs"
	_ "github.com/rogpeppe/go-internal/testscript"
	_ "github.com/shirou/gopsutil/v3/mem"
	_ "github.com/shirou/gopsutil/v3/cpu"
	_ "github.com/shirou/gopsutil/v3/load"
	_ "github.com/shirou/gopsutil/v3/process"
	_ "github.com/spf13/cobra"
	_ "go.uber.org/goleak"
	_ "golang.org/x/sync/errgroup"
	_ "golang.org/x/sys/unix"
	_ "golang.org/x/term"
	_ "modernc.org/sqlite"
	_ "pgregory.net/rapid"
	_ "google.golang.org/protobuf/proto"
)
