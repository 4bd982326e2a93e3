package yarn_test

import (
	"net/http"
	"os"
	"path/filepath"
	"testing"

	"github.com/bursar/bursar/test/yarn"
)

// What runs in a cluster ends with it, containers too, and its folder goes.
func TestNothingIsLeftBehind(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "cluster")
	if err := os.Mkdir(dir, 0o700); err != nil {
		t.Fatal(err)
	}
	c, err := yarn.Launch(t.Context(), dir, yarn.Options{Version: yarn.Hadoop27})
	if err != nil {
		t.Fatal(err)
	}
	id := c.Submit(t, yarn.Application{Queue: "default", MemoryMiB: 1024, VCores: 1})
	c.AwaitAllocated(t, id)
	yarn.Await(t, "its container runs", func() bool { return standing(t, filepath.Join(dir, "nm1", "local")) > 0 })
	if err := c.Close(); err != nil {
		t.Fatal(err)
	}
	if left := standing(t, dir); left != 0 {
		t.Errorf("%d processes are left", left)
	}
	if _, err := os.Stat(dir); !os.IsNotExist(err) {
		t.Errorf("the folder: %v", err)
	}
	if response, err := http.Get(c.URL()); err == nil {
		response.Body.Close()
		t.Error("the ResourceManager answers")
	}
}

// standing counts the processes in a folder.
func standing(t *testing.T, dir string) (count int) {
	t.Helper()
	list, err := filepath.Glob("/proc/[0-9]*/cwd")
	if err != nil {
		t.Fatal(err)
	}
	for _, link := range list {
		if at, err := os.Readlink(link); err == nil && (at == dir || len(at) > len(dir) && at[:len(dir)+1] == dir+"/") {
			count++
		}
	}
	return count
}
