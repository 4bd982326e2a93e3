package main

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"sync"

	"golang.org/x/sync/errgroup"
)

// try runs the package's tests against each of the mutants and calls told with each result, one at
// a time. It ends when ctx does; the results until then are valid.
func try(ctx context.Context, p *loaded, mutants []*mutant, workers int, told func(*mutant)) error {
	temporary, err := os.MkdirTemp("", "mutants-")
	if err != nil {
		return err
	}
	defer os.RemoveAll(temporary)
	path, err := p.build(ctx, temporary)
	if err != nil {
		return err
	}
	tests, err := calibrate(ctx, p, path)
	if err != nil {
		return err
	}
	var one sync.Mutex // guards the mutants and told
	group, ctx := errgroup.WithContext(ctx)
	group.SetLimit(max(1, workers))
	for _, m := range mutants {
		group.Go(func() error {
			noticed := tests.notice(ctx, m.number)
			if ctx.Err() != nil { // it may be the end of ctx that failed
				return ctx.Err()
			}
			one.Lock()
			defer one.Unlock()
			m.tried, m.survived = true, !noticed
			told(m)
			return nil
		})
	}
	return group.Wait()
}

// build compiles the package's tests with all mutants in the code.
func (p *loaded) build(ctx context.Context, temporary string) (string, error) {
	over := make(map[string]string)
	for _, f := range p.files {
		at := filepath.Join(temporary, filepath.Base(f.path))
		if err := os.WriteFile(at, f.woven(), 0o600); err != nil {
			return "", err
		}
		over[filepath.Join(p.root, f.path)] = at
	}
	at := filepath.Join(temporary, "mutants_woven.go")
	if err := os.WriteFile(at, []byte("package "+p.name+mutantsGo), 0o600); err != nil {
		return "", err
	}
	over[filepath.Join(p.root, p.dir, "mutants_woven.go")] = at
	overlay, err := json.Marshal(map[string]any{"Replace": over})
	if err != nil {
		return "", err
	}
	overlayPath, tests := filepath.Join(temporary, "overlay.json"), filepath.Join(temporary, "tests")
	if err := os.WriteFile(overlayPath, overlay, 0o600); err != nil {
		return "", err
	}
	//nolint:gosec // the package that the caller names
	compile := exec.CommandContext(ctx, "go", "test", "-c", "-vet=off", "-overlay", overlayPath, "-o", tests, p.path)
	compile.Dir = p.root
	if output, err := compile.CombinedOutput(); err != nil {
		return "", fmt.Errorf("with its mutants it does not compile: %w\n%s", err, output)
	}
	return tests, nil
}
