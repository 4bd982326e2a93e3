package exec

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/itchyny/gojq"

	"github.com/bursar/bursar/internal/command"
	"github.com/bursar/bursar/providers"
)

// TestMain lets this test binary act as jq, so that the scripts can be tested on machines without
// jq.
func TestMain(m *testing.M) {
	if filepath.Base(os.Args[0]) == "jq" {
		if err := jq(os.Args[1:]); err != nil {
			fmt.Fprintln(os.Stderr, "jq:", err)
			os.Exit(5)
		}
		return
	}
	os.Exit(m.Run())
}

// jq runs the arguments FILTER --args ARGUMENT….
func jq(args []string) error {
	if len(args) < 2 || args[1] != "--args" {
		return errors.New("want FILTER --args ARGUMENT…")
	}
	query, err := gojq.Parse(args[0])
	if err != nil {
		return err
	}
	code, err := gojq.Compile(query, gojq.WithVariables([]string{"$ARGS"}))
	if err != nil {
		return err
	}
	var input any
	if err := json.NewDecoder(os.Stdin).Decode(&input); err != nil {
		return err
	}
	positional := make([]any, len(args)-2)
	for i, arg := range args[2:] {
		positional[i] = arg
	}
	results := code.Run(input, map[string]any{"positional": positional, "named": map[string]any{}})
	for result, more := results.Next(); more; result, more = results.Next() {
		if err, is := result.(error); is {
			return err
		}
		if err := json.NewEncoder(os.Stdout).Encode(result); err != nil {
			return err
		}
	}
	return nil
}

// example runs a script of examples/providers. The program other is replaced by one that prints a
// file of testdata and exits with a code.
func example(t *testing.T, other, prints string, code int, args ...string) (command.Printed, error) {
	t.Helper()
	dir := t.TempDir()
	data, err := filepath.Abs(filepath.Join("testdata", prints))
	if err != nil {
		t.Fatal(err)
	}
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	program := fmt.Sprintf("#!/bin/sh\ncat '%s'\nexit %d\n", data, code)
	err = errors.Join(os.WriteFile(filepath.Join(dir, other), []byte(program), 0o700), os.Symlink(self, filepath.Join(dir, "jq")))
	if err != nil {
		t.Fatal(err)
	}
	args[0] = filepath.Join("..", "..", "examples", "providers", args[0])
	if args[0], err = filepath.Abs(args[0]); err != nil {
		t.Fatal(err)
	}
	c := command.Command{Args: args, Dir: "/", Env: []string{"PATH=" + dir + ":/usr/bin:/bin"}, MaxOutput: 1 << 20}
	return c.Run(t.Context())
}

// lines formats queues, one per line.
func lines(t *testing.T, printed command.Printed) string {
	t.Helper()
	a, err := Decode(printed.Output)
	if err != nil {
		t.Fatal(err)
	}
	var b strings.Builder
	for _, q := range a.Queues {
		fmt.Fprintf(&b, "%s: %s of %s\n", q.Path, q.Used, q.Limit)
	}
	return b.String()
}

func TestExampleOfKubernetes(t *testing.T) {
	const etl = "etl: memory=1.5G,cpu=57m,instances=3 of memory=64G,cpu=10,instances=1000\n"
	for name, test := range map[string]struct {
		namespaces []string
		want       string
	}{
		// the quota of limits has less memory left than that of requests; the quota few-pods limits
		// pods
		"all":  {nil, "analytics: memory=60GiB,cpu=7250m,instances=12,nvidia.com/gpu=1 of memory=220GiB,cpu=40,instances=30,nvidia.com/gpu=4\n" + etl},
		"some": {[]string{"etl"}, etl},
	} {
		t.Run(name, func(t *testing.T) {
			printed, err := example(t, "kubectl", "resourcequotas.json", 0, append([]string{"kubernetes-quotas.sh"}, test.namespaces...)...)
			if err != nil {
				t.Fatalf("%v: %s", err, printed.Errors)
			}
			if got := lines(t, printed); got != test.want {
				t.Errorf("got\n%swant\n%s", got, test.want)
			}
		})
	}
	printed, err := example(t, "kubectl", "resourcequotas.json", 0, "kubernetes-quotas.sh", "etl", "ana")
	if err == nil || len(printed.Output) > 0 || !strings.Contains(printed.Errors, "ana: no ResourceQuota that counts") {
		t.Errorf("a namespace without a quota: %v, %q, it said %q", err, printed.Output, printed.Errors)
	}
	if printed, err := example(t, "kubectl", "resourcequotas.json", 1, "kubernetes-quotas.sh"); err == nil || len(printed.Output) > 0 {
		t.Errorf("kubectl fails: %v, %q", err, printed.Output)
	}
}

func TestExampleOfALicenceServer(t *testing.T) {
	printed, err := example(t, "lmutil", "lmstat.txt", 0, "flexlm-licences.sh", "27000@lic1", "MATLAB", "SIMULINK", "Statistics_Toolbox")
	if err != nil {
		t.Fatalf("%v: %s", err, printed.Errors)
	}
	if got, want := lines(t, printed), "licences: MATLAB=4,SIMULINK=1,Statistics_Toolbox=0 of MATLAB=10,SIMULINK=1,Statistics_Toolbox=5\n"; got != want {
		t.Errorf("got %swant %s", got, want)
	}
	for name, test := range map[string]struct{ prints, feature, want string }{
		"the server is down": {"lmstat-down.txt", "MATLAB", `Connection refused") / lmstat does not say that the license server is up`},
		"no lmstat":          {"lmstat-absent.txt", "MATLAB", "lmutil: not found / lmstat does not say that the license server is up"},
		"no such feature":    {"lmstat.txt", "MATLAB_", "feature MATLAB_: lmstat does not have it"},
		"no figures of it":   {"lmstat.txt", "Optimization_Toolbox", "feature Optimization_Toolbox: lmstat does not have it"},
	} {
		printed, err := example(t, "lmutil", test.prints, 1, "flexlm-licences.sh", "27000@lic1", test.feature)
		if err == nil || len(printed.Output) > 0 || !strings.HasSuffix(printed.Errors, test.want) {
			t.Errorf("%s: %v, %q, it said %q", name, err, printed.Output, printed.Errors)
		}
	}
	printed, err = example(t, "lmutil", "lmstat.txt", 64, "flexlm-licences.sh", "27000@lic1")
	if err == nil || len(printed.Output) > 0 || !strings.Contains(printed.Errors, "want a server and at least one feature") {
		t.Errorf("without features: %v, %q, it said %q", err, printed.Output, printed.Errors)
	}
}

// document returns docs/providers.md.
func document(t *testing.T) string {
	t.Helper()
	data, err := os.ReadFile(filepath.Join("..", "..", "docs", "providers.md"))
	if err != nil {
		t.Fatal(err)
	}
	return string(data)
}

func TestEveryAnswerInTheDocumentIsRight(t *testing.T) {
	blocks := regexp.MustCompile("(?s)```json\n(.*?)```").FindAllStringSubmatch(document(t), -1)
	if len(blocks) == 0 {
		t.Fatal("there is none")
	}
	for _, block := range blocks {
		if _, err := Decode([]byte(block[1])); err != nil {
			t.Errorf("%v\n%s", err, block[1])
		}
	}
}

// docs/providers.md describes every field that the decoder's error messages list.
func TestTheDocumentHasEveryField(t *testing.T) {
	text := document(t)
	for _, wrong := range []string{
		`{"version":1,"":0}`, queue(`"":0`), limit(`"":0`), `{"version":1,"queues":[{"path":"a"}],"applications":[{"":0}]}`,
	} {
		_, err := Decode([]byte(wrong))
		_, names, found := strings.Cut(fmt.Sprint(err), "want one of the fields ")
		if !found {
			t.Fatal(err)
		}
		for _, name := range regexp.MustCompile(`\w+`).FindAllString(names, -1) {
			if name != "or" && !strings.Contains(text, "`"+name+"`") {
				t.Errorf("docs/providers.md does not have `%s`", name)
			}
		}
	}
	for _, s := range slices.Concat(Settings(), providers.PaceSettings()) {
		if !strings.Contains(text, "`"+s.Name+"`") {
			t.Errorf("docs/providers.md does not have the setting `%s`", s.Name)
		}
	}
}
