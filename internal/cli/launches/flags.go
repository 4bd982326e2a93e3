package launches

import (
	"cmp"
	"os"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/bursar/bursar/internal/cli/cmdline"
	"github.com/bursar/bursar/internal/cli/failure"
	bursarv1 "github.com/bursar/bursar/proto/bursar/v1"
)

// Flags describe a launch, in addition to the flags of a request for resources.
type Flags struct {
	// Env, LogDirectory and Limit may be flags of the command itself, which binds them.
	Env          []string
	LogDirectory string
	Limit        bool

	account, directory, script string
	envFiles, secrets          []string
	ready                      readyFlags
	within                     time.Duration
	retries                    int32
	needFiles, needVariables   []string

	added *pflag.FlagSet // the flags that Add has added
}

// Add adds the flags of a launch to a command. Each help text begins with the prefix.
func (f *Flags) Add(cmd *cobra.Command, prefix string) {
	flags := pflag.NewFlagSet("", pflag.ContinueOnError)
	flags.StringVar(&f.account, "account", "", prefix+"the account on the host that it runs as (default: the value of the label user, else the name of your account here)")
	flags.StringVar(&f.directory, "dir", "", prefix+"the directory on the host that it runs in (default: the account's home)")
	flags.StringVar(&f.script, "script", "", prefix+"a file here that is run on the host, at most 60KiB, - for standard input; the arguments are the script's")
	flags.StringArrayVar(&f.envFiles, "env-file", nil, prefix+"a file here with a NAME=VALUE in each line for its environment; repeatable")
	flags.StringArrayVar(&f.secrets, "secret", nil, prefix+"NAME of a variable here for its environment that nobody stores or shows; repeatable")
	f.ready.add(flags, prefix)
	flags.VarP(cmdline.DurationFlag{Value: &f.within}, "ready-within", "", prefix+"the time it has to become ready (default 5m)")
	flags.Int32Var(&f.retries, "retries", 0, prefix+"how often it is started again if it has begun and has not become ready; wants a --ready-… flag")
	flags.StringArrayVar(&f.needFiles, "need-file", nil, prefix+"a path that must be there on the host, or another host is tried; repeatable")
	flags.StringArrayVar(&f.needVariables, "need-variable", nil, prefix+"a variable that must be set on the host, or another host is tried; repeatable")
	flags.SortFlags = false
	f.added = flags
	cmd.Flags().AddFlagSet(flags)
	_ = cmd.MarkFlagFilename("script")
	_ = cmd.MarkFlagFilename("env-file")
}

// Own lists the flags that Add has added.
func (f *Flags) Own() (names []string) {
	f.added.VisitAll(func(flag *pflag.Flag) { names = append(names, flag.Name) })
	return names
}

// checkValues refuses a flag with an empty value, such as that of a variable that is not set, and
// the name of no account.
func (f *Flags) checkValues() (err error) {
	if !isAccount(f.account) {
		return failure.Usagef("--account %q: want the name of an account: at most 256 letters, digits, _ . @ + - and \\", f.account)
	}
	f.added.VisitAll(func(flag *pflag.Flag) {
		if flag.Changed && flag.Value.Type() == "string" && flag.Value.String() == "" {
			err = failure.Usagef("--%s \"\": is empty, as a variable is that is not set: want a value, or no --%s", flag.Name, flag.Name)
		}
	})
	return err
}

// Request makes a launch of a request for resources. args are the command with its arguments, or
// the arguments of the script. in is standard input.
func (f *Flags) Request(c *cmdline.Invocation, request *bursarv1.AllocateRequest, args []string) (*bursarv1.StartRequest, error) {
	if err := f.checkValues(); err != nil {
		return nil, err
	}
	spec := &bursarv1.LaunchSpec{
		Account: f.account, Command: args, WorkingDirectory: f.directory, Limit: f.Limit,
		RequiredFiles: f.needFiles, RequiredVariables: f.needVariables,
	}
	if spec.Account == "" {
		spec.Account = cmp.Or(request.GetLabels()["user"], ownName())
	}
	for _, path := range append([]namedPath{{"--dir", f.directory}, {"--log-dir", f.LogDirectory}}, named("--need-file", f.needFiles)...) {
		if err := path.check(); err != nil {
			return nil, err
		}
	}
	if f.LogDirectory != "" {
		spec.Logs = &bursarv1.LaunchLogs{Directory: f.LogDirectory}
	}
	for _, name := range f.needVariables {
		if !isVariable(name) {
			return nil, failure.Usagef("--need-variable %q: want the name of a variable", name)
		}
	}
	var err error
	if spec.Script, err = readScript(c, f.script); err != nil {
		return nil, err
	}
	if len(spec.GetScript()) == 0 && (len(args) == 0 || args[0] == "") {
		return nil, failure.Usagef("no COMMAND: want -- COMMAND [ARGUMENT…], or --script FILE")
	}
	if spec.Environment, err = f.environment(); err != nil {
		return nil, err
	}
	start := &bursarv1.StartRequest{Request: request, Launch: spec, Retries: f.retries}
	if start.Secrets, err = f.secretValues(spec.GetEnvironment()); err != nil {
		return nil, err
	}
	if spec.Ready, err = f.ready.readiness(f.added, f.within); err != nil {
		return nil, err
	}
	switch {
	case f.retries < 0 || f.retries > maxRetries:
		return nil, failure.Usagef("--retries %d: want a number from 0 to %d", f.retries, maxRetries)
	case f.retries > 0 && spec.GetReady() == nil:
		return nil, failure.Usagef("--retries %d: want a --ready-… flag next to it: without one nothing tells whether the engine has failed to start", f.retries)
	}
	return start, nil
}

// maxRetries is that of the contract.
const maxRetries = 7

// ownName is the name of this program's account; empty if nobody knows it.
func ownName() string {
	return cmp.Or(accountOf(os.Geteuid()), os.Getenv("USER"), os.Getenv("LOGNAME"))
}

// isAccount reports whether a text is fit for the name of an account, as the contract has it.
func isAccount(name string) bool {
	return len(name) <= 256 && !strings.ContainsFunc(name, func(r rune) bool {
		return (r < 'a' || r > 'z') && (r < 'A' || r > 'Z') && (r < '0' || r > '9') && !strings.ContainsRune(`_.@+-\`, r)
	})
}
