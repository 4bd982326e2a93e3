package orders

import (
	"strings"
	"testing"

	bursarv1 "github.com/bursar/bursar/proto/bursar/v1"
)

// The list of programs is a boundary only if the caller cannot have them execute something else.
func TestAHostThatListsProgramsRestrictsTheirEnvironment(t *testing.T) {
	hostile := []string{
		"LD_PRELOAD", "LD_LIBRARY_PATH", "LD_AUDIT", "BASH_ENV", "ENV", "IFS", "PATH", "HOME", "SHELL", "USER", "CDPATH", "GLIBC_TUNABLES",
		"BASH_FUNC_ls%%", "PS4", "PYTHONSTARTUP", "PYTHONPATH", "PYTHONHOME", "JAVA_TOOL_OPTIONS", "_JAVA_OPTIONS", "JDK_JAVA_OPTIONS", "CLASSPATH",
		"NODE_OPTIONS", "NODE_PATH", "PERL5OPT", "PERL5LIB", "RUBYOPT", "GIT_SSH_COMMAND", "EDITOR", "PAGER", "LESSOPEN", "TMPDIR", "GCONV_PATH",
		"LOCPATH", "NLSPATH", "HOSTALIASES", "LANGUAGE", "LANG_X", "XLANG", "lang", " LANG", "TZDIR", "LC", "BURSAR_HELD", "BURSAR_ADDR", "SPARK_HOME", "",
	}
	for _, listed := range []bool{true, false} {
		policy := standard()
		if listed {
			policy.Programs = []string{"/bin/true"}
		}
		for _, name := range hostile {
			for where, spec := range map[string]*bursarv1.LaunchSpec{"environment": {Environment: map[string]string{name: "hunter2"}}, "secret": {}} {
				secrets := &bursarv1.LaunchSecrets{}
				if where == "secret" {
					secrets.Variables = map[string]string{"LANG": "C", name: "hunter2"}
				}
				err := policy.allowsEnvironment(spec, secrets)
				if (err != nil) != listed {
					t.Errorf("%s %q with a list of programs: %v: %v", where, name, listed, err)
				}
				if err != nil && (!strings.Contains(err.Error(), "only LANG, LC_*, TZ (engines.remote.environment.allowed)") || strings.Contains(err.Error(), "hunter2")) {
					t.Errorf("%s %q: %v", where, name, err)
				}
			}
		}
		if err := policy.allowsEnvironment(&bursarv1.LaunchSpec{Environment: map[string]string{"LANG": "C", "LC_ALL": "C", "TZ": "UTC"}}, nil); err != nil {
			t.Error(err)
		}
	}
}

// What the operator lists counts, with a list of programs and without.
func TestTheOperatorListsTheVariablesOfALaunch(t *testing.T) {
	policy := standard()
	launch := func(names ...string) string {
		spec := &bursarv1.LaunchSpec{Environment: make(map[string]string)}
		for _, name := range names {
			spec.Environment[name] = "x"
		}
		if err := policy.allowsEnvironment(spec, nil); err != nil {
			return err.Error()
		}
		return ""
	}
	policy.Variables = []string{"SPARK_*", "DEBUG"}
	for _, c := range []struct {
		names []string
		want  string
	}{
		{[]string{"SPARK_HOME", "SPARK_", "DEBUG"}, ""},
		{nil, ""},
		{[]string{"DEBUGGER"}, "environment DEBUGGER: this host does not let a launch set it: want only SPARK_*, DEBUG (engines.remote.environment.allowed)"},
		{[]string{"SPARK", "LANG", "SPARK_A"}, "environment LANG, SPARK: this host"},
		{[]string{"a", "b", "c", "d", "e", "f", "g"}, "environment a, b, c, d, e and 2 more: this host"},
		{[]string{"A\nlevel=ERROR"}, `environment "A\nlevel=ERROR": this host`},
		{[]string{strings.Repeat("é", 1000)}, `environment "\u00e9`},
	} {
		got := launch(c.names...)
		if (c.want == "") != (got == "") || !strings.HasPrefix(got, c.want) || len(got) > 600 {
			t.Errorf("%q: %s", c.names, got)
		}
	}
	policy.Variables = []string{}
	if got := launch("LANG"); !strings.Contains(got, "want none") {
		t.Error(got)
	}
	policy.Variables, policy.Programs = []string{"*"}, []string{"/bin/true"}
	if got := launch("LD_PRELOAD"); got != "" {
		t.Error(got)
	}
}

// A launch that is refused for a variable takes no step: the host launches nothing.
func TestALaunchWithALoadersVariableIsRefused(t *testing.T) {
	policy := standard()
	policy.Programs = []string{"/bin/true"}
	r := newRig(t, policy)
	r.orders <- orderOf(t, "granted", &bursarv1.LaunchSpec{Account: "etl", Command: []string{"/bin/true"}, Environment: map[string]string{"LD_PRELOAD": "/tmp/x.so"}})
	if reason := r.next(t).GetFailed().GetReason(); !strings.HasPrefix(reason, "environment LD_PRELOAD: ") || r.count() != 0 {
		t.Errorf("%q, %d launched", reason, r.count())
	}
	if got := strings.Join(r.log.audits(), ""); !strings.Contains(got, "LD_PRELOAD") || !strings.Contains(got, "code=refused") {
		t.Errorf("the audit record: %s", got)
	}
}

// The host's variables are in each engine. A launch replaces one of them if it may set it, and none
// of Bursar's.
func TestTheEnvironmentOfAnEngine(t *testing.T) {
	policy := standard()
	policy.Set = map[string]string{"SPARK_HOME": "/opt/spark", "LANG": "C", "A": "host"}
	grant := &bursarv1.Allocation{Labels: map[string]string{"user": "alice"}}
	got := policy.environmentOf(
		&bursarv1.LaunchSpec{Environment: map[string]string{"LANG": "de", "BURSAR_LABEL_user": "root"}},
		&bursarv1.LaunchSecrets{Variables: map[string]string{"A": "secret"}}, grant)
	for name, want := range map[string]string{"SPARK_HOME": "/opt/spark", "LANG": "de", "A": "secret", "BURSAR_LABEL_user": "alice"} {
		if got[name] != want {
			t.Errorf("%s is %q, want %q", name, got[name], want)
		}
	}
	if policy.Set["LANG"] != "C" {
		t.Error("the setting was changed")
	}
}
