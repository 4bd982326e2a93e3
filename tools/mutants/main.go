package main

import (
	"context"
	"flag"
	"fmt"
	"io"
	"os"
	"os/signal"
	"path/filepath"
	"regexp"
	"runtime"
	"slices"
	"syscall"
	"time"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	err := run(ctx, os.Args[1:], os.Stdout)
	stop()
	if err != nil {
		fmt.Fprintln(os.Stderr, "mutants:", err)
		os.Exit(1)
	}
}

// run judges the packages and files that the arguments name. The error says how many survivors are
// not listed, and how many are listed but did not survive.
func run(ctx context.Context, args []string, out io.Writer) error {
	flags := flag.NewFlagSet("mutants", flag.ContinueOnError)
	listPath := flags.String("survivors", "test/mutants/survivors.txt", "the `file` of the survivors that are known to be harmless")
	workers := flags.Int("workers", runtime.GOMAXPROCS(0), "how many mutants are tried at the same time")
	every := flags.Int("every", 1, "try each `n`th mutant only")
	matching := flags.String("only", "", "try mutants only whose line in the list would match the `regexp`")
	if err := flags.Parse(args); err != nil {
		return err
	}
	only, err := regexp.Compile(*matching)
	if err != nil {
		return fmt.Errorf("-only: %w", err)
	}
	known, err := readSurvivors(*listPath)
	if err != nil {
		return err
	}
	wrong := 0
	paths, files := packagesOf(flags.Args())
	for _, path := range paths {
		p, err := load(ctx, path)
		if err != nil {
			return fmt.Errorf("%s: %w", path, err)
		}
		for _, name := range files[path] {
			if !slices.ContainsFunc(p.files, func(f *source) bool { return filepath.Base(f.path) == name }) {
				return fmt.Errorf("%s: it has no file %s", path, name)
			}
		}
		mutants := weave(p)
		n, err := known.judge(ctx, p, mutants, sample(mutants, *every, only, files[path]), *workers, out)
		wrong += n
		if err != nil {
			return fmt.Errorf("%s: %w", path, err)
		}
	}
	if wrong > 0 {
		return fmt.Errorf("%d survivors that %s does not explain, or explains in vain", wrong, *listPath)
	}
	return nil
}

// packagesOf is the packages that the arguments name, each once. If only files of a package are
// named, it has the files' names.
func packagesOf(args []string) (paths []string, files map[string][]string) {
	files = make(map[string][]string)
	for _, arg := range args {
		path, name := arg, ""
		if filepath.Ext(arg) == ".go" {
			path, name = "./"+filepath.Dir(arg), filepath.Base(arg)
		}
		if !slices.Contains(paths, path) {
			paths = append(paths, path)
		}
		if name != "" {
			files[path] = append(files[path], name)
		}
	}
	return paths, files
}

// judge tries the mutants of a package. It prints each survivor that is not listed, as soon as it
// is known, and returns how many there are, and which listed ones did not survive.
func (s survivors) judge(
	ctx context.Context, p *loaded, mutants, wanted []*mutant, workers int, out io.Writer,
) (wrong int, err error) {
	begin := time.Now()
	tried, survived := 0, 0
	err = try(ctx, p, wanted, workers, func(m *mutant) {
		tried++
		if !m.survived {
			return
		}
		survived++
		if !s[m.key.String()] {
			wrong++
			fmt.Fprintf(out, "  no test notices: %s  (line %d)\n", m.key, m.line)
		}
	})
	for _, key := range s.dead(p, mutants) {
		wrong++
		fmt.Fprintf(out, "  listed, and did not survive: %s\n", key)
	}
	fmt.Fprintf(out, "%s: %d of %d mutants tried in %s, %d survived\n",
		p.dir, tried, len(mutants), time.Since(begin).Round(time.Second), survived)
	return wrong, err
}

// sample is each nth mutant of those that match and are in the files; no files: in any.
func sample(mutants []*mutant, every int, only *regexp.Regexp, files []string) []*mutant {
	var some []*mutant
	for i, m := range mutants {
		if i%max(1, every) == 0 && only.MatchString(m.key.String()) && (files == nil || slices.Contains(files, filepath.Base(m.key.file))) {
			some = append(some, m)
		}
	}
	return some
}
