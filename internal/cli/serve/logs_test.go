package serve

import (
	"encoding/json"
	"log/slog"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/spf13/cobra"
)

func TestLogsAsJSONHaveDurationsInSeconds(t *testing.T) {
	out, err := os.Create(filepath.Join(t.TempDir(), "log"))
	if err != nil {
		t.Fatal(err)
	}
	defer out.Close()
	flags := addLogFlags(&cobra.Command{}, "info")
	flags.format = "json"
	log, err := flags.logger(out, "")
	if err != nil {
		t.Fatal(err)
	}
	log.With("since", time.Minute).Info("slow", "took", 1500*time.Millisecond, "at", time.Unix(0, 0).UTC(), slog.Group("call", "left", 250*time.Millisecond))
	text, err := os.ReadFile(out.Name())
	if err != nil {
		t.Fatal(err)
	}
	var record struct {
		Took, Since float64
		At          time.Time
		Call        struct{ Left float64 }
	}
	if err := json.Unmarshal(text, &record); err != nil {
		t.Fatalf("%v: %s", err, text)
	}
	if record.Took != 1.5 || record.Since != 60 || record.Call.Left != 0.25 || !record.At.Equal(time.Unix(0, 0)) {
		t.Errorf("logged %s", text)
	}
}
