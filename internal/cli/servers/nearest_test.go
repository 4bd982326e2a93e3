package servers

import (
	"io"
	"net"
	"os"
	"path/filepath"
	"testing"

	"github.com/spf13/cobra"

	"github.com/bursar/bursar/internal/cli/failure"
	"github.com/bursar/bursar/internal/cli/render"
)

// What the user has named is asked: flags before variables, a coordinator before an agent. Nothing
// is said of it.
func TestTheNamedServerIsAsked(t *testing.T) {
	socket := filepath.Join(t.TempDir(), "agent.sock")
	listener, err := net.Listen("unix", socket)
	if err != nil {
		t.Fatal(err)
	}
	defer listener.Close()
	for name, test := range map[string]struct {
		flags, env map[string]string
		server     string
		agent      bool
	}{
		"--addr":                       {map[string]string{"addr": "http://rm-1:1"}, nil, "http://rm-1:1", false},
		"--addr and --agent":           {map[string]string{"addr": "http://rm-1:1", "agent": socket}, nil, "http://rm-1:1", false},
		"--agent and BURSAR_ADDR":      {map[string]string{"agent": socket}, map[string]string{"BURSAR_ADDR": "http://rm-1:1"}, socket, true},
		"BURSAR_ADDR":                  {nil, map[string]string{"BURSAR_ADDR": "http://rm-1:1"}, "http://rm-1:1", false},
		"BURSAR_ADDR and BURSAR_AGENT": {nil, map[string]string{"BURSAR_ADDR": "http://rm-1:1", "BURSAR_AGENT": socket}, "http://rm-1:1", false},
		"BURSAR_AGENT":                 {nil, map[string]string{"BURSAR_AGENT": socket}, socket, true},
	} {
		t.Run(name, func(t *testing.T) {
			t.Setenv("BURSAR_ADDR", test.env["BURSAR_ADDR"])
			t.Setenv("BURSAR_AGENT", test.env["BURSAR_AGENT"])
			read, write, err := os.Pipe()
			if err != nil {
				t.Fatal(err)
			}
			defer read.Close()
			c := NewConnections(failure.NewReporter(render.NewPrinter(write, write)))
			defer c.Close()
			cmd := &cobra.Command{Use: "stop"}
			cmd.SetContext(t.Context())
			cmd.Flags().StringVar(&c.Addr, "addr", "", "")
			cmd.Flags().StringVar(&c.Agent, "agent", "", "")
			for flag, value := range test.flags {
				if err := cmd.Flags().Set(flag, value); err != nil {
					t.Fatal(err)
				}
			}
			cl, err := c.Nearest(cmd)
			if err != nil || cl.Target() != test.server || c.OfAgent != test.agent {
				t.Errorf("%v, %v, of an agent: %t", cl.Target(), err, c.OfAgent)
			}
			_ = write.Close()
			if said, _ := io.ReadAll(read); len(said) > 0 {
				t.Errorf("it says %s", said)
			}
		})
	}
}
