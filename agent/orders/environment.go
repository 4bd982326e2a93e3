package orders

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	bursarv1 "github.com/bursar/bursar/proto/bursar/v1"
)

// mostNamed is the most variables that a refusal names, and longestName the most bytes of each.
const (
	mostNamed   = 5
	longestName = 64
)

// HarmlessVariables are the variables that a launch may set on a host that restricts programs and
// names no variables: the language and the time zone. Many others make a program execute code:
// LD_PRELOAD, PATH, BASH_ENV, PYTHONPATH, JAVA_TOOL_OPTIONS.
func HarmlessVariables() []string { return []string{"LANG", "LC_*", "TZ"} }

// settable returns the variables that a launch may set. all is true if this host does not restrict
// them.
func (p *Policy) settable() (names []string, all bool) {
	switch {
	case p.Variables != nil:
		return p.Variables, false
	case len(p.Programs) > 0:
		return HarmlessVariables(), false
	}
	return nil, true
}

// allowsEnvironment refuses a launch whose environment or secrets set a variable that this host
// does not allow. The error is a *RefusedError without values.
func (p *Policy) allowsEnvironment(spec *bursarv1.LaunchSpec, secrets *bursarv1.LaunchSecrets) error {
	names, all := p.settable()
	if all {
		return nil
	}
	var refused []string
	for _, set := range []map[string]string{spec.GetEnvironment(), secrets.GetVariables()} {
		for name := range maps.Keys(set) {
			if !slices.ContainsFunc(names, func(pattern string) bool { return covers(pattern, name) }) {
				refused = append(refused, name)
			}
		}
	}
	if len(refused) == 0 {
		return nil
	}
	slices.Sort(refused)
	refused = slices.Compact(refused)
	want := "none (engines.remote.environment.allowed is empty)"
	if len(names) > 0 {
		want = "only " + strings.Join(names, ", ") + " (engines.remote.environment.allowed)"
	}
	return &RefusedError{"environment " + named(refused) + ": this host does not let a launch set it", want}
}

// covers reports whether a pattern, a name or a prefix with a * at its end, matches a variable.
func covers(pattern, name string) bool {
	prefix, open := strings.CutSuffix(pattern, "*")
	return name == pattern || open && strings.HasPrefix(name, prefix)
}

// named lists the first few names, made safe to display: they come from the caller.
func named(names []string) string {
	shown := make([]string, 0, mostNamed)
	for _, name := range names[:min(len(names), mostNamed)] {
		if quoted := fmt.Sprintf("%+q", name); quoted != `"`+name+`"` || len(name) > longestName {
			name = fmt.Sprintf("%+q", name[:min(len(name), longestName)])
		}
		shown = append(shown, name)
	}
	text := strings.Join(shown, ", ")
	if more := len(names) - mostNamed; more > 0 {
		text += fmt.Sprintf(" and %d more", more)
	}
	return text
}

// environmentOf returns the environment of an engine, without the variables that every engine has.
// A variable of the launch replaces the host's variable. Nothing replaces Bursar's own variables.
func (p *Policy) environmentOf(spec *bursarv1.LaunchSpec, secrets *bursarv1.LaunchSecrets, grant *bursarv1.Allocation) map[string]string {
	environment := make(map[string]string, len(p.Set)+len(spec.GetEnvironment())+len(secrets.GetVariables())+len(grant.GetLabels()))
	maps.Copy(environment, p.Set)
	maps.Copy(environment, spec.GetEnvironment())
	maps.Copy(environment, secrets.GetVariables())
	for key, value := range grant.GetLabels() {
		environment[labelVariable(key)] = value
	}
	return environment
}

// labelVariable returns the variable of a label: BURSAR_LABEL_ and the key, with an underscore for
// each character that a variable cannot have.
func labelVariable(key string) string {
	name := []byte("BURSAR_LABEL_" + key)
	for i, c := range name {
		if (c < '0' || c > '9') && (c < 'A' || c > 'Z') && (c < 'a' || c > 'z') {
			name[i] = '_'
		}
	}
	return string(name)
}
