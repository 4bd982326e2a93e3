package launches

import (
	"fmt"
	"os"
	"strings"
	"unicode/utf8"

	"github.com/bursar/bursar/internal/cli/cmdline"
	"github.com/bursar/bursar/internal/cli/failure"
	"github.com/bursar/bursar/internal/regularfile"
)

// maxEnvFile bounds a file of variables, in bytes: a launch has at most 64 KiB.
const maxEnvFile = 64 << 10

// NamedVariables are the variables that --env names, in its order: NAME=VALUE, or NAME for the
// value here.
func NamedVariables(list []string) (pairs []string, err error) {
	for _, pair := range list {
		name, _, given := strings.Cut(pair, "=")
		if !isVariable(name) { // the value may be a secret
			return nil, failure.Usagef("--env %q: want NAME=VALUE or NAME, with no blank in NAME", name)
		}
		if !given {
			value, set := os.LookupEnv(name)
			if !set {
				return nil, failure.Usagef("--env %s: there is no such variable here: want one that is set, or %s=VALUE; %s= is an empty one", name, name, name)
			}
			pair = name + "=" + value
		}
		pairs = append(pairs, pair)
	}
	return pairs, nil
}

// environment has the variables of the files, and over them those of --env.
func (f *Flags) environment() (map[string]string, error) {
	variables := make(map[string]string)
	for _, file := range f.envFiles {
		content, err := regularfile.ReadInput(file, maxEnvFile)
		if err != nil {
			return nil, cmdline.Unusable(fmt.Errorf("--env-file: %w", err))
		}
		if err := readVariables(variables, file, string(content)); err != nil {
			return nil, err
		}
	}
	pairs, err := NamedVariables(f.Env)
	if err != nil {
		return nil, err
	}
	for _, pair := range pairs {
		name, value, _ := strings.Cut(pair, "=")
		variables[name] = value
	}
	if len(variables) == 0 {
		return nil, nil //nolint:nilnil // no variables are nil
	}
	return variables, nil
}

// readVariables reads lines NAME=VALUE. Empty lines and lines that begin with # count for nothing.
// No shell reads the values: quotes are part of them. Errors show names alone: a value may be a
// secret.
func readVariables(into map[string]string, file, content string) error {
	number := 0
	for line := range strings.SplitSeq(content, "\n") {
		number++
		line = strings.TrimSuffix(line, "\r")
		if trimmed := strings.TrimSpace(line); trimmed == "" || strings.HasPrefix(trimmed, "#") {
			continue
		}
		name, value, found := strings.Cut(line, "=")
		switch {
		case !found || !isVariable(name):
			return &failure.ExitError{Code: failure.ExitData, Err: fmt.Errorf("--env-file %s, line %d: want NAME=VALUE, with nothing before NAME and no blank in it", file, number)}
		case !utf8.ValidString(value) || strings.Contains(value, "\x00"):
			return &failure.ExitError{Code: failure.ExitData, Err: fmt.Errorf("--env-file %s, line %d: the value of %s: want UTF-8 without zero bytes", file, number, name)}
		}
		into[name] = value
	}
	return nil
}

// isVariable reports whether a text is fit for the name of a variable.
func isVariable(name string) bool {
	return name != "" && utf8.ValidString(name) && !strings.Contains(name, "=") && !strings.ContainsFunc(name, func(r rune) bool { return r <= ' ' || r == 0x7f })
}

// secretValues are the secrets that --secret names, with their values here. Errors show no value,
// and of a text with an = only the part before it.
func (f *Flags) secretValues(environment map[string]string) (map[string]string, error) {
	secrets := make(map[string]string)
	for _, name := range f.secrets {
		name, _, hasValue := strings.Cut(name, "=")
		value, set := os.LookupEnv(name)
		switch {
		case hasValue:
			return nil, failure.Usagef("--secret %q with a value: want the name alone: everybody on this machine sees a command line, so the value comes from the variable %s here", name, name)
		case !isVariable(name):
			return nil, failure.Usagef("--secret %q: want the name of a variable", name)
		case !set:
			return nil, failure.Usagef("--secret %s: there is no such variable here: want it in this program's environment", name)
		}
		if _, twice := environment[name]; twice {
			return nil, failure.Usagef("--secret %s: is also in the environment by --env or --env-file: want one of them", name)
		}
		secrets[name] = value
	}
	if len(secrets) == 0 {
		return nil, nil //nolint:nilnil // no secrets are nil
	}
	return secrets, nil
}
