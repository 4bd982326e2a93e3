package main

import (
	"cmp"
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"
)

const (
	// numberVariable names the mutant that is in force, in the environment of the tests.
	numberVariable = "MUTANT_IN_FORCE"
	// mostMemory limits the address space of the tests, in KiB: a mutant may ask for memory
	// without end.
	mostMemory = 4 << 20
	// firstStage is how long the tests of the first stage take together. Each further stage may
	// take stageGrowth times as long as the one before.
	firstStage  = 100 * time.Millisecond
	stageGrowth = 4
)

// program is the compiled tests of a package, with all of its mutants in the code.
type program struct {
	*loaded

	path   string
	stages []stage
}

// stage is some of the tests. The fastest come first: they notice most mutants.
type stage struct {
	tests string // for -test.run
	// seconds is the processor time that a run may take, however busy the machine is.
	seconds int
	wall    time.Duration // real time that it may take, for mutants that wait for ever
}

// finished is the line of a test that passed.
var finished = regexp.MustCompile(`(?m)^--- PASS: (\S+) \((.*)s\)$`)

// calibrate runs the tests without a mutant, and divides them into stages.
func calibrate(ctx context.Context, p *loaded, path string) (*program, error) {
	tests := &program{loaded: p, path: path}
	unbound := stage{tests: ".", seconds: 600, wall: time.Hour}
	output, err := tests.command(ctx, unbound, 0, "-test.v").CombinedOutput()
	if err != nil {
		return nil, fmt.Errorf("its tests fail without a mutant: %w\n%s", err, output)
	}
	for _, names := range stagesOf(string(output)) {
		begin := time.Now()
		unbound.tests = "^(" + strings.Join(names, "|") + ")$"
		run := tests.command(ctx, unbound, 0)
		if output, err := run.CombinedOutput(); err != nil {
			return nil, fmt.Errorf("some of its tests fail without the others: %w\n%s", err, output)
		}
		used := run.ProcessState.UserTime() + run.ProcessState.SystemTime()
		tests.stages = append(tests.stages, stage{
			tests: unbound.tests, seconds: 1 + int(4*used.Seconds()), wall: 20 * (5*time.Second + time.Since(begin)),
		})
	}
	return tests, nil
}

// stagesOf divides the tests by how long they took.
func stagesOf(output string) [][]string {
	type test struct {
		name string
		took time.Duration
	}
	var tests []test
	for _, m := range finished.FindAllStringSubmatch(output, -1) {
		seconds, _ := strconv.ParseFloat(m[2], 64) // as the expression has it
		tests = append(tests, test{m[1], time.Duration(seconds * float64(time.Second))})
	}
	slices.SortStableFunc(tests, func(a, b test) int { return cmp.Compare(a.took, b.took) })
	var stages [][]string
	var names []string
	sum, most := time.Duration(0), firstStage
	for _, t := range tests {
		if len(names) > 0 && sum+t.took > most {
			stages, names, sum, most = append(stages, names), nil, 0, stageGrowth*most
		}
		names, sum = append(names, t.name), sum+t.took
	}
	return append(stages, names)
}

// notice reports whether a test fails, or does not end, with the mutant in force.
func (p *program) notice(ctx context.Context, number int) bool {
	for _, s := range p.stages {
		ctx, cancel := context.WithTimeout(ctx, s.wall)
		err := p.command(ctx, s, number).Run()
		cancel()
		if err != nil {
			return true
		}
	}
	return false
}

// command runs a stage. Properties draw from one seed, so that a mutant that survives always
// survives.
func (p *program) command(ctx context.Context, s stage, number int, args ...string) *exec.Cmd {
	bounds := fmt.Sprintf(`ulimit -v %d && ulimit -t %d && exec "$0" "$@"`, mostMemory, s.seconds)
	args = append([]string{"-c", bounds, p.path, "-test.short", "-test.failfast", "-test.run", s.tests}, args...)
	if p.rapid {
		args = append(args, "-rapid.seed=1", "-rapid.nofailfile", "-rapid.shrinktime=1ms")
	}
	command := exec.CommandContext(ctx, "sh", args...) //nolint:gosec // the tests that were just built
	command.Dir = filepath.Join(p.root, p.dir)
	command.Env = append(os.Environ(), fmt.Sprintf("%s=%d", numberVariable, number), "GOMAXPROCS=1")
	return command
}
