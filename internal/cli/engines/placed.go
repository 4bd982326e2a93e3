package engines

import (
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/bursar/bursar/internal/cli/cmdline"
	"github.com/bursar/bursar/internal/cli/failure"
	"github.com/bursar/bursar/internal/cli/launches"
	"github.com/bursar/bursar/internal/cli/render"
	"github.com/bursar/bursar/internal/cli/requests"
	bursarv1 "github.com/bursar/bursar/proto/bursar/v1"
)

// submitWait is how long a request of submit waits if nobody says how long.
const submitWait = 24 * time.Hour

// remoteText is about engines on other hosts, for the help of all commands that start one.
const remoteText = `Standard input is closed, and there is no terminal. Bursar moves no files: the
command and its files must be on the host already, such as on a file system that
all hosts have. --script alone is taken along; --need-file says what must be
there. No variable of this shell goes along by itself: the environment has what
--env and --env-file say, HOME, USER, LOGNAME, SHELL, PATH and the BURSAR_
variables, with the labels as BURSAR_LABEL_user and so on. The coordinators
store it, with the command and the script, until the engine has begun.`

// rightsText is about the right to start engines on other hosts.
const rightsText = `The coordinator must allow you to launch as --account (mayLaunch of your
identity), and a host must allow the account (engines.remote of its agent); a
refusal says which of both is missing.`

// runRemoteText is the part about --remote of run's help.
const runRemoteText = `

With --remote the command runs on another host, which bursar chooses; --host,
--require, --prefer and --avoid say which ones it may choose. Both outputs come
here as they are, and run ends with the exit code of the command. SIGINT
(Ctrl-C), SIGTERM, SIGHUP, SIGQUIT, SIGUSR1 and SIGUSR2 are passed on; a second
Ctrl-C within 5s stops the command, with --grace. If the connection is lost or
another coordinator leads, run goes on at the next byte. If run itself is
killed, the command goes on: "bursar logs -f ID" shows its output. To start a
command and not wait for it, see "bursar submit".

` + remoteText + ` A variable of
--secret is never stored.

` + rightsText

// remoteFlags are the flags of run --remote.
type remoteFlags struct {
	remote bool
	copies string
	launch launches.Flags
	places []string // the names of the flags of the place
}

// addRemoteFlags adds the flags to run, which has flags of its own for some of the launch.
func addRemoteFlags(cmd *cobra.Command, f *requests.Flags) *remoteFlags {
	r := &remoteFlags{}
	flags := cmd.Flags()
	flags.BoolVar(&r.remote, "remote", false, "run the command on another host, show its output here, and end with its exit code")
	flags.StringVar(&r.copies, "stdout", "", "with --remote: a file here that gets a copy of the standard output; -o FILE means the same")
	before := map[string]bool{}
	flags.VisitAll(func(flag *pflag.Flag) { before[flag.Name] = true })
	requests.AddPlaceFlags(cmd, f)
	flags.VisitAll(func(flag *pflag.Flag) {
		if !before[flag.Name] {
			r.places = append(r.places, flag.Name)
			flag.Usage = "with --remote: " + flag.Usage
		}
	})
	r.launch.Add(cmd, "with --remote: ")
	_ = cmd.MarkFlagFilename("stdout")
	return r
}

// check refuses flags that contradict each other. detached are those of a command that the agent of
// this machine starts.
func (r *remoteFlags) check(cmd *cobra.Command, detached *detachFlags) error {
	changed := func(names ...string) error {
		for _, name := range names {
			if cmd.Flags().Changed(name) && !r.remote {
				return failure.Usagef("--%s: want --remote next to it", name)
			}
		}
		return nil
	}
	if err := changed(append(append(r.launch.Own(), r.places...), "stdout")...); err != nil || !r.remote {
		return err
	}
	for _, name := range []string{"user", "workdir", "env-all"} {
		instead := map[string]string{"user": "--account", "workdir": "--dir", "env-all": "--env NAME for each variable"}[name]
		if cmd.Flags().Changed(name) {
			return failure.Usagef("--%s: is for the agent of this machine: with --remote want %s", name, instead)
		}
	}
	if detached.detach {
		return failure.Usagef("--remote and --detach: want one of them; bursar submit starts a command on another host and does not wait")
	}
	return nil
}

// file is the local copy of the output: in the file of --stdout, or of -o if it names no form.
func (r *remoteFlags) file(c *cmdline.Invocation) (*localCopy, error) {
	name := r.copies
	if !render.IsForm(c.Form) {
		if name != "" && name != c.Form {
			return nil, failure.Usagef("--stdout %q and -o %q: want one of them", name, c.Form)
		}
		name, c.Form = c.Form, render.OutputTable
	}
	if name == "" {
		return nil, nil //nolint:nilnil // no file
	}
	return openCopy(name)
}

// runRemote runs a command on another host.
func (r *remoteFlags) run(cmd *cobra.Command, c *cmdline.Invocation, f *requests.Flags, req *bursarv1.AllocateRequest, args []string, detached *detachFlags, grace time.Duration, limit bool) error {
	r.launch.Env, r.launch.LogDirectory, r.launch.Limit = detached.env, detached.logs, limit
	start, err := r.launch.Request(c, req, args)
	if err != nil {
		return err
	}
	cl, err := c.Coordinator(cmd.Context())
	if err != nil {
		return err
	}
	c.Warn(f.PlaceDoubts(cmd.Context(), cl))
	file, err := r.file(c)
	if err != nil {
		return err
	}
	defer file.close()
	return (&remote{c: c, cl: cl, req: start, grace: grace, copies: file}).run(cmd.Context())
}
